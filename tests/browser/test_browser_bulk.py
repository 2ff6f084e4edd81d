"""What runs wait for, finding them by their inputs, and one action on all of them."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from browser.gestures import heading, told
from browser.live_system import LiveSystem
from browser.seeds import Seeds
from browser.test_browser_runs import row_of, rows


def test_a_run_that_waits_for_a_person_says_so_in_amber(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    page.get_by_role("group", name="State").get_by_role("link", name=re.compile("^Waiting")).click()
    page.get_by_role("group", name="Waiting for").get_by_role("link", name=re.compile("For a person")).click()
    expect(row_of(page, seeds.priced)).to_contain_text("waiting for a person")
    expect(row_of(page, seeds.priced)).to_contain_text("item=flour")
    expect(row_of(page, seeds.priced).locator(".state.waiting")).to_be_visible()
    expect(row_of(page, seeds.running)).to_have_count(0)
    page.goto(f"/runs/{seeds.running}")
    expect(heading(page)).to_contain_text("running")
    expect(page.get_by_role("heading", name="In progress")).to_be_visible()
    expect(page.locator(".why:not(.calm)")).to_have_count(0)


def test_runs_found_by_an_input_are_paused_together(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    chosen = [live.submit("Held", name=f"zanzibar {number}") for number in range(2)]
    page.goto("/runs?text=zanzi")
    expect(rows(page)).to_have_count(2)
    page.get_by_role("link", name="Pause …", exact=True).click()
    expect(heading(page)).to_have_text("Pause 2 runs?")
    for run in chosen:
        expect(page.get_by_role("table", name="Runs that are hit")).to_contain_text(run)
    page.get_by_role("button", name="Pause 2 runs").click()
    told(page, "Paused 2 runs.")
    expect(page).to_have_url(re.compile("text=zanzi"))
    for run in chosen:
        expect(row_of(page, run)).to_contain_text("paused")
