"""What a page looked like at the end of a test, kept if asked for."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page


def keep_screenshot(page: Page, test: str) -> None:
    """In the folder that AFL_SCREENSHOTS names, if it does, under the name of the test."""
    if shots := os.environ.get("AFL_SCREENSHOTS"):
        Path(shots).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{shots}/{test.replace('/', '_')}.png", full_page=True)
