"""What a person does on many pages."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def heading(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)


def row(page: Page, table: str, text: str) -> Locator:
    """The row of a table that has a text."""
    return page.get_by_role("table", name=table).locator("tbody tr", has_text=text)


def confirm(page: Page, button: Locator) -> None:
    """Press a button that asks first, and mean it. Before its scripts are there, a page does not ask."""
    page.wait_for_load_state()
    button.click()
    page.get_by_role("dialog").get_by_role("button").last.click()


def told(page: Page, text: str) -> None:
    """The page says what became of an action."""
    expect(page.locator(".flash", has_text=text).first).to_be_visible()


def hide(page: Page, hidden: bool) -> None:
    """Put the page into the background, or bring it back: a browser without windows shows all of its pages."""
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )
