"""The tests' own browser: one that does not close a page keeps nobody waiting."""

from __future__ import annotations

import pytest
from support import chromium
from support.chromium import Chromium

from browser.live_system import LiveSystem


def test_a_browser_that_does_not_close_a_context_is_replaced(
    browser: Chromium, live: LiveSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromium, "CLOSING_SECONDS", 0.1)
    with browser.context(base_url=live.url) as stuck:
        page = stuck.new_page()
        monkeypatch.setattr(stuck, "close", lambda: page.wait_for_event("never", timeout=0))
    monkeypatch.undo()
    with browser.context(base_url=live.url) as fresh:
        page = fresh.new_page()
        page.goto("/runs")
        assert page.title().startswith("Runs")
