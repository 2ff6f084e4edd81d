"""Keys, search, the theme, and pages without scripts."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from support.chromium import Chromium

from browser.gestures import heading
from browser.live_system import LiveSystem
from browser.looks import LOOKS
from browser.seeds import MARKUP, Seeds


def test_a_slash_leads_to_the_search(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    page.keyboard.press("/")
    box = page.get_by_role("searchbox", name=re.compile("^Search runs"))
    expect(box).to_be_focused()
    box.fill(seeds.many[:12])
    box.press("Enter")
    expect(heading(page)).to_have_text("Search")
    page.locator(f"a[href='/runs/{seeds.many}']").click()
    expect(heading(page)).to_contain_text("shop.Many")


def test_the_search_finds_things_of_every_part(page: Page, seeds: Seeds) -> None:
    for text, href in (
        ("Inventory", "/start?workflow=shop.Inventory"),
        (seeds.turn[:-1], f"/turns/{seeds.turn}"),
        ("clerk", "/agents/clerk"),
        ("nightly", "/fleet/workflows/nightly"),
        ("shop-floor", "/servers/"),
    ):
        page.goto(f"/search?q={text}")
        expect(page.locator(f".hits a[href^='{href}']").first).to_be_visible()
    page.goto(f"/search?q={seeds.turn}")  # a whole id leads to the thing itself
    expect(heading(page)).to_have_text("Turn of clerk")
    page.goto("/search?q=nothing-is-called-this")
    expect(page.get_by_role("heading", name=re.compile("No results for"))).to_be_visible()


def test_a_question_mark_shows_the_keys(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()


def test_g_and_a_letter_lead_to_a_section(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    key = page.locator("[data-go]", has_text="Schedules").get_attribute("data-go")
    page.keyboard.press("g")
    page.keyboard.press(key or "")
    expect(heading(page)).to_have_text("Schedules")


def test_the_first_tab_skips_to_the_content(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_the_theme_is_switched_and_stays(page: Page, seeds: Seeds) -> None:
    page.goto("/runs")
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(color)
    button = page.locator("[data-theme-switch]")
    for chosen in ("light", "dark"):
        button.click()
        expect(page.locator("html")).to_have_attribute("data-theme", chosen)
    assert page.evaluate(color) != light
    page.goto("/tasks")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(color) != light


def test_pages_and_actions_work_without_scripts(browser: Chromium, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Held", name="plain")
    with browser.context(base_url=live.url, java_script_enabled=False, **LOOKS[0].options) as context:
        page = context.new_page()
        page.goto("/runs")
        page.locator(f"a[href='/runs/{run}']").first.click()
        page.get_by_role("button", name="Pause").click()
        expect(heading(page)).to_contain_text("paused")
        page.get_by_role("button", name="Unpause").click()
        live.open_gate("plain")
        live.until(run, "completed")


def test_markup_in_payloads_is_text_everywhere(page: Page, seeds: Seeds) -> None:
    for path in (
        f"/runs/{seeds.marked}?view=graph",
        f"/runs/{seeds.marked}?view=timeline",
        f"/runs/{seeds.marked}?view=tree",
        f"/runs/{seeds.marked}/steps/piece",
        f"/turns/{seeds.turn}",
        "/messages/dead",
    ):
        page.goto(path)
        expect(page.get_by_role("main")).to_contain_text("<script>window.marked")
        assert page.locator("main script, main img").count() == 0
        assert page.evaluate("window.marked") is None
    page.goto(f"/search?q={MARKUP}")
    expect(page.get_by_role("main")).to_contain_text("<script>window.marked")
    assert page.evaluate("window.marked") is None
