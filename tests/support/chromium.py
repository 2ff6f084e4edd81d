"""The system's Chromium: where it is, whether it must be there, and how it is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
MISSING = "browser tests (no Chromium; `make chromium` installs it)"
_FLAGS = (
    "--no-sandbox",  # root in a container has no other choice
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def find_chromium() -> str | None:
    """The program that AFL_CHROMIUM names, or the first one of the usual names."""
    if named := os.environ.get("AFL_CHROMIUM"):
        return shutil.which(named)
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def is_required() -> bool:
    """Whether a machine without Chromium is an error, as in CI."""
    return os.environ.get("AFL_BROWSER") == "required"


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser without a window."""
    from playwright.sync_api import sync_playwright  # every test session loads this file; few open a browser

    program = find_chromium()
    assert program is not None, f"NOT RUN: {MISSING}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()
