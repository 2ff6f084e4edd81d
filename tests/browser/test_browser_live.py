"""Pages that refresh themselves: many of one browser, and browsers that cannot share a stream."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from browser.live_system import LiveSystem
from browser.seeds import Seeds

CONNECTIONS = 6  # that a browser opens to one server


def expect_live(page: Page) -> None:
    expect(page.locator("[data-link-state]")).to_have_text("live")


def test_more_pages_than_connections_are_live_at_once(
    context: BrowserContext, page: Page, seeds: Seeds, live: LiveSystem
) -> None:
    """All of them are visible, as windows side by side are."""
    others = [context.new_page() for _ in range(CONNECTIONS)]
    addresses = ("/tasks", "/servers", "/approvals", "/schedules", "/turns", f"/runs/{seeds.running}")
    for other, address in zip(others, addresses, strict=True):
        other.goto(address)
        expect_live(other)
    page.goto("/runs")
    expect_live(page)
    run = live.submit("Unserved", street="Oak Street")
    expect(page.locator(f"a[data-row][href='/runs/{run}']")).to_be_visible()


def test_a_page_goes_on_when_another_one_is_closed(
    context: BrowserContext, page: Page, live: LiveSystem
) -> None:
    other = context.new_page()
    other.goto("/tasks")
    page.goto("/runs")
    expect_live(other)
    expect_live(page)
    other.close()
    run = live.submit("Unserved", street="Ash Street")
    expect(page.locator(f"a[data-row][href='/runs/{run}']")).to_be_visible()


def test_a_browser_without_shared_workers_has_a_stream_for_each_page(page: Page, live: LiveSystem) -> None:
    page.add_init_script("delete window.SharedWorker")
    with page.expect_request("**/events?*"):
        page.goto("/runs")
    expect_live(page)
    run = live.submit("Unserved", street="Yew Street")
    expect(page.locator(f"a[data-row][href='/runs/{run}']")).to_be_visible()
