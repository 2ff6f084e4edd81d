"""The list of runs: filters, search, pages, and what happens while one looks at it."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from afl.operations.program.submission import submit_source
from browser.accessibility import check_fits
from browser.live_system import LiveSystem
from browser.seeds import OLD, Seeds

# Texts that are wider than the element they are in, and that nobody can scroll.
CUT_OFF = """() => [...document.querySelectorAll("main p, main td, main h1, main dd")]
  .filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
  .filter(each => getComputedStyle(each).overflowX === "visible")
  .map(each => each.outerHTML.slice(0, 200))"""


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Runs").locator("tbody tr")


def row_of(page: Page, run: str) -> Locator:
    return rows(page).filter(has=page.locator(f"a[href='/runs/{run}']"))


def test_states_filter_the_list(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    for state, run in (("failed", seeds.failed), ("paused", seeds.paused), ("canceled", seeds.canceled)):
        page.get_by_role("group", name="State").get_by_role("link", name=state.capitalize()).click()
        expect(row_of(page, run)).to_contain_text(state)
        expect(row_of(page, seeds.completed)).to_have_count(0)
    box = page.get_by_label("Words in id, name, inputs, outputs or error")
    box.fill(seeds.completed)  # other tests may have made more runs since than a page shows
    box.press("Enter")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    page.get_by_role("group", name="State").get_by_role("link", name="All").click()
    expect(row_of(page, seeds.completed)).to_contain_text("completed")


def test_a_workflow_and_a_time_filter_the_list(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    page.get_by_label("Workflow", exact=True).select_option("shop.Mended")
    expect(page).to_have_url(re.compile("workflow=shop.Mended"))
    expect(row_of(page, seeds.failed)).to_be_visible()
    expect(row_of(page, seeds.completed)).to_have_count(0)
    page.goto("/runs?workflow=shop.Old")
    expect(rows(page).first).to_contain_text("shop.Old")
    page.get_by_label("Started").select_option("24h")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()


def test_text_finds_runs_by_id_workflow_and_error(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    box = page.get_by_label("Words in id, name, inputs, outputs or error")
    for text, run in (
        (seeds.many, seeds.many),
        ("Unserved", seeds.waiting),
        ("vase is broken", seeds.failed),
    ):
        box.fill(text)
        box.press("Enter")
        expect(row_of(page, run)).to_be_visible()
        expect(row_of(page, seeds.completed)).to_have_count(0)
        expect(box).to_have_value(text)
    box.fill("nothing has this text")
    box.press("Enter")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()


def test_pages_lead_to_older_runs_and_back(page: Page, seeds: Seeds) -> None:
    page.goto("/runs?workflow=shop.Old")
    seen = set()
    while True:
        seen |= set(rows(page).locator("a.title").evaluate_all("links => links.map(each => each.href)"))
        older = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Older")
        if older.count() == 0:
            break
        older.click()
        page.wait_for_url(re.compile("before="))
    assert len(seen) == OLD
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Newest").click()
    expect(page).not_to_have_url(re.compile("before="))


def test_a_run_that_another_process_makes_appears_and_changes(
    page: Page, live: LiveSystem, seeds: Seeds
) -> None:
    page.goto("/runs")
    expect(rows(page).first).to_be_visible()
    run = live.submit("Held", name="appearing")
    expect(row_of(page, run)).to_contain_text("running")
    live.open_gate("appearing")
    expect(row_of(page, run)).to_contain_text("completed")


def test_the_list_is_walked_with_keys(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    links = rows(page).locator("a.title")
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-z]{26}$"))


def test_runs_are_told_apart_by_name_and_tags(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    source = "workflow Nightly(n: Long = 1) => (n: Long) andThen { yield Nightly(n = $.n) }"
    tags = {"team": "data & co", "day": "monday"}
    named = live.do(lambda: submit_source(live.store, source, run_name="Monday's page", tags=tags)).run
    live.do(lambda: submit_source(live.store, source, tags={"team": "other"}))
    page.goto("/runs")
    row = row_of(page, named)
    expect(row.get_by_role("link", name="Monday's page")).to_be_visible()
    expect(row).to_contain_text("Nightly")
    row.get_by_role("link", name="team=data & co").click()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_label("Tag")).to_have_value("team=data & co")
    page.get_by_role("link", name="Monday's page").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Monday's page")
    expect(page.get_by_role("main")).to_contain_text("day=monday")


def test_runs_with_long_names_are_compared_on_a_phone(page: Page, live: LiveSystem) -> None:
    source = "workflow Nightly(n: String) => (n: String) andThen { yield Nightly(n = $.n) }"
    runs = [
        live.do(
            lambda word=word: submit_source(live.store, source, "", {"n": word * 90}, run_name=word * 90)
        ).run
        for word in ("a", "b")
    ]
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(f"/compare?first={runs[0]}&second={runs[1]}")
    check_fits(page)


def test_long_names_of_workflows_and_steps_fit_a_phone(page: Page, live: LiveSystem) -> None:
    name = "a.department.with.many.words.TheWorkflowWithALongNameAsGeneratorsProduceIt"
    space, _, short = name.rpartition(".")
    step = "aStatementWithALongNameThatNobodyWritesByHand"
    source = f"""namespace {space} {{
        event facet {short}Facet(n: Double) => (m: Long)
        workflow {short}(n: Long) => (m: Long) andThen {{
            {step} = {short}Facet(n = 1 / $.n)
            yield {short}(m = {step}.m)
        }}
    }}"""
    failed, waiting = (
        live.do(lambda n=n: submit_source(live.store, source, name, {"n": n})).run for n in (0, 1)
    )
    live.until(failed, "failed")
    page.set_viewport_size({"width": 1280, "height": 844})
    page.goto("/runs")
    tops = page.locator(".filters > :is(input, select, button)").evaluate_all(
        "all => all.map((each) => each.offsetTop)"
    )
    assert max(tops) - min(tops) < 10  # one line
    page.set_viewport_size({"width": 390, "height": 844})
    for address in (
        "/overview",
        "/tasks",
        f"/runs/{failed}",
        f"/runs/{failed}/steps/{step}",
        f"/compare?first={failed}&second={waiting}",
        f"/schedules/new?workflow={name}",
        f"/start?workflow={name}",
    ):
        page.goto(address)
        check_fits(page)
        assert page.evaluate(CUT_OFF) == [], address
