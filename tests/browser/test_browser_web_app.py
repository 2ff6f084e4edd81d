"""The web application of the examples, used in a browser as its visitors would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.web_app import free_port, web_app

from browser.page_watch import PageWatch


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[str]:
    """Its address."""
    port = free_port()
    with web_app(f"sqlite:///{tmp_path}/orders.db", port):
        yield f"http://127.0.0.1:{port}"


def test_an_order_is_sent_followed_and_released(page: Page, watch: PageWatch, shop: str) -> None:
    watch.allow_host(shop)
    page.goto(shop)
    page.get_by_label("Number").fill("77")
    page.get_by_role("button", name="Order", exact=True).click()
    release = page.get_by_role("button", name="Release the amount")
    expect(release).to_be_enabled()
    expect(page.get_by_role("listitem")).to_have_text(["step-waiting released human:finance"])
    release.click()
    expect(page.get_by_role("status")).to_have_text('Order 77: {"receipt":"receipt-77","parcel":"parcel-77"}')
    expect(page.get_by_role("listitem").last).to_have_text("run-completed")
