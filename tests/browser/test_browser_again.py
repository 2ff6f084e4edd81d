"""Starting a run again with its inputs in a form, and forking it at a step."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from browser.accessibility import check_accessible, check_fits
from browser.gestures import heading
from browser.live_system import LiveSystem


def test_a_run_is_started_again_with_its_inputs(page: Page, live: LiveSystem) -> None:
    run = live.submit("Order", item={"name": "tea", "price": 2.0}, count=4)
    live.until(run, "completed")
    page.goto(f"/runs/{run}")
    page.get_by_role("link", name="Start another").click()
    item = page.get_by_role("group", name="item")
    expect(item.get_by_label("name")).to_have_value("tea")
    expect(page.get_by_label("count")).to_have_value("4")
    check_accessible(page)
    check_fits(page)
    page.get_by_label("count").fill("5")
    page.get_by_role("button", name="Start").click()
    expect(heading(page)).to_contain_text("completed")
    again = live.run(page.url.rpartition("/")[2].partition("?")[0])
    assert (again.origin, again.inputs["count"], again.inputs["item"]["name"]) == (run, 5, "tea")
    page.get_by_role("link", name=run).click()
    expect(page.get_by_role("heading", name="Reruns and forks")).to_be_visible()


def test_a_run_is_forked_at_a_step_with_another_input(page: Page, live: LiveSystem) -> None:
    run = live.submit("Order", item={"name": "tea", "price": 2.0}, count=4)
    total = live.run(live.until(run, "completed")).outputs["total"]
    page.goto(f"/runs/{run}/steps/stamped")
    page.get_by_role("link", name="Fork from here").click()
    expect(heading(page)).to_have_text("Fork at stamped")
    expect(page.get_by_label("n Long")).to_have_value("4")
    check_accessible(page)
    check_fits(page)
    page.get_by_label("n Long").fill("8")
    page.get_by_role("button", name="Fork").click()
    expect(heading(page)).to_contain_text("completed")
    forked = live.run(page.url.rpartition("/")[2].partition("?")[0])
    assert (forked.origin, forked.outputs["total"]) == (f"{run}/0/stamped", total * 2)
    expect(page.get_by_text("Forked from")).to_be_visible()
