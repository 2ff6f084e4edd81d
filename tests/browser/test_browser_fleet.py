"""The fleet: workflows, runs as DAGs, lines that stream in, start and cancel."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from browser.gestures import confirm, heading, hide
from browser.live_system import LiveSystem
from browser.seeds import Seeds


def lines(page: Page) -> Locator:
    return page.get_by_role("list", name="Lines of the run")


def task(page: Page, name: str, state: str) -> Locator:
    dag = page.get_by_role("group", name="Tasks and what each waits for")
    return dag.get_by_role("link", name=re.compile(f"^{name}, {state}"))


def start_gated(page: Page, gate: str) -> None:
    page.goto("/fleet")
    page.get_by_role("link", name=re.compile("Gated count")).first.click()
    expect(heading(page)).to_have_text("Gated count")
    page.get_by_label("gate").fill(gate)
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile("/fleet/runs/"))


def test_a_run_is_shown_as_a_dag_with_its_lines(page: Page, seeds: Seeds) -> None:
    page.goto(f"/fleet/runs/{seeds.fleet_run}")
    for name, state in (
        ("north", "completed"),
        ("sum", "completed"),
        ("print", "failed"),
        ("frame", "skipped"),
    ):
        expect(task(page, name, state)).to_be_visible()
    expect(lines(page)).to_contain_text("12 in the north on tuesday")
    expect(page.get_by_role("main")).to_contain_text("print: exit code 3")


def test_lines_are_filtered_by_task_and_by_text(page: Page, seeds: Seeds) -> None:
    page.goto(f"/fleet/runs/{seeds.fleet_run}")
    page.get_by_label("Task", exact=True).select_option("south")
    expect(lines(page)).to_contain_text("a warning")
    expect(lines(page)).not_to_contain_text("42 in all")
    page.goto(f"/fleet/runs/{seeds.fleet_run}")
    page.get_by_label("Find in lines").fill("42 IN all")
    page.get_by_label("Find in lines").press("Enter")
    expect(lines(page)).to_contain_text("42 in all")
    expect(lines(page)).not_to_contain_text("north")


def test_a_run_is_started_and_its_lines_stream_in(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    start_gated(page, "fleet-gate")
    expect(lines(page)).to_contain_text("at gate fleet-gate")
    expect(task(page, "wait", "running")).to_be_visible()
    live.open_gate("fleet-gate")
    expect(lines(page)).to_contain_text("the count is over")
    expect(task(page, "end", "completed")).to_be_visible()
    expect(page.get_by_role("region", name="State of the run")).to_contain_text("completed")


def test_a_hidden_page_has_no_stream_and_reads_on_when_it_is_seen(
    page: Page, live: LiveSystem, seeds: Seeds
) -> None:
    with page.expect_request("**/lines?*"):
        start_gated(page, "hidden-gate")
    expect(lines(page)).to_contain_text("at gate hidden-gate")
    with page.expect_event("requestfailed", lambda request: "/lines" in request.url):
        hide(page, True)
    live.open_gate("hidden-gate")
    hide(page, False)
    expect(lines(page)).to_contain_text("the count is over")
    expect(lines(page).get_by_text("at gate hidden-gate")).to_have_count(1)


def test_a_parameter_that_is_missing_is_named(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/fleet/workflows/gated")
    page.locator("form[action$='/start']").evaluate("form => { form.noValidate = true }")
    page.get_by_role("button", name="Start").click()
    expect(page.locator(".flash")).to_contain_text("gate")


def test_a_run_is_canceled(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    start_gated(page, "never-opened")
    expect(lines(page)).to_contain_text("at gate never-opened")
    confirm(page, page.get_by_role("button", name="Cancel"))
    expect(page.get_by_role("region", name="State of the run")).to_contain_text("canceled")
