"""Starting a workflow: from those that are known or from a source, with a form of its typed inputs."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from afl.runtime.persistence import RunFilter
from browser.gestures import heading
from browser.live_system import LiveSystem
from browser.page_watch import PageWatch
from browser.seeds import MARKUP, Seeds

HELLO = """namespace hello {
    workflow Hello(name: String = "world", times: Long = 1) => (name: String, times: Long) andThen {
        yield Hello(name = $.name, times = $.times)
    }
}
"""


def test_a_known_workflow_is_started_with_typed_inputs(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    live.until(live.submit("Order", item={"name": "tea", "price": 2.0}), "completed")
    page.goto("/start")
    page.get_by_role("link", name="shop.Order").click()
    expect(heading(page)).to_have_text("shop.Order")
    item = page.get_by_role("group", name="item")
    item.get_by_label("name").fill(MARKUP)
    item.get_by_label("price").fill("2.5")
    page.get_by_label("count").fill("3")
    page.get_by_label("gift").check()
    page.get_by_label("tags").fill("red\nblue")
    page.get_by_label("note").fill("at the door")
    page.get_by_role("button", name="Start").click()
    expect(heading(page)).to_contain_text("completed")
    run = page.url.rpartition("/")[2].partition("?")[0]
    inputs = live.run(run).inputs
    assert inputs["item"] == {"name": MARKUP, "price": 2.5}
    assert (inputs["count"], inputs["gift"], inputs["tags"]) == (3, True, ["red", "blue"])
    assert live.run(run).outputs == {"total": 15.0, "note": "at the door"}


def test_inputs_that_do_not_fit_are_named_and_nothing_is_started(
    page: Page, live: LiveSystem, seeds: Seeds, watch: PageWatch
) -> None:
    watch.expect_status(422)
    live.until(live.submit("Order", item={"name": "tea", "price": 2.0}), "completed")
    before = len(live.store.find_runs(RunFilter(workflow="shop.Order", limit=1000)))
    page.goto("/start?workflow=shop.Order")
    item = page.get_by_role("group", name="item")
    item.get_by_label("name").fill("tea")
    item.get_by_label("price").fill("cheap")
    page.get_by_label("count").fill("many")
    page.get_by_role("button", name="Start").click()
    for label in ("price", "count"):
        expect(page.get_by_label(label)).to_have_attribute("aria-invalid", "true")
    expect(item.get_by_label("price")).to_have_value("cheap")
    assert len(live.store.find_runs(RunFilter(workflow="shop.Order", limit=1000))) == before


def test_a_source_is_brought_and_started(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/start")
    page.get_by_label("AFL source").fill(HELLO)
    page.get_by_role("button", name="Continue").click()
    expect(heading(page)).to_have_text("hello.Hello")
    page.get_by_label("name").fill("Ada")
    page.get_by_role("button", name="Start").click()
    expect(heading(page)).to_contain_text("hello.Hello")
    expect(heading(page)).to_contain_text("completed")
    expect(page.get_by_role("main")).to_contain_text("Ada")


def test_the_mistakes_of_a_source_are_shown_with_their_lines(
    page: Page, seeds: Seeds, watch: PageWatch
) -> None:
    watch.expect_status(422)
    page.goto("/start")
    wrong = HELLO.replace("$.times)", "$.tines)")
    page.get_by_label("AFL source").fill(wrong)
    page.get_by_role("button", name="Continue").click()
    box = page.locator(".problem-box").first
    expect(box).to_contain_text("tines")
    expect(box).to_contain_text("yield Hello")
    expect(page.get_by_label("AFL source")).to_have_value(wrong)
