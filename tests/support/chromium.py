"""The system's Chromium: where it is, whether it must be there, and how it is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

# The headless shell first: it draws the same pages with a quarter of the processor time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = "browser tests (no Chromium; `make chromium` installs it)"
CLOSING_SECONDS = 30.0  # it takes some 50 ms
_FLAGS = (
    "--no-sandbox",  # root in a container has no other choice
    "--disable-gpu",
    "--disable-dev-shm-usage",
    # Replaces Playwright's own list, of which these tests need the first. The second starts a process ahead of the
    # next page: 5 % of the processor time of the browser tests.
    "--disable-features=PaintHolding,SpareRendererForSitePerProcess",
)


def find_chromium() -> str | None:
    """The program that AFL_CHROMIUM names, or the first one of the usual names."""
    if named := os.environ.get("AFL_CHROMIUM"):
        return shutil.which(named)
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def is_required() -> bool:
    """Whether a machine without Chromium is an error, as in CI."""
    return os.environ.get("AFL_BROWSER") == "required"


class Chromium:
    """A browser without a window for as long as the block lasts, and another one if the first has to be ended."""

    def __enter__(self) -> Chromium:
        from playwright.sync_api import (
            sync_playwright,  # every test session loads this file; few open a browser
        )

        self._playwright = sync_playwright().start()
        self._started: Browser | None = None
        self._mark = ""
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._started is not None:
                self._started.close()
        finally:
            self._playwright.stop()

    @contextmanager
    def context(self, **options: Any) -> Iterator[BrowserContext]:
        """A visitor of his own: no cookies, nothing in the cache."""
        opened = self._browser().new_context(**options)
        try:
            yield opened
        finally:
            self._close(opened)

    def _browser(self) -> Browser:
        if self._started is None:
            program = find_chromium()
            assert program is not None, f"NOT RUN: {MISSING}"
            self._mark = f"--started-by-test={uuid4()}"
            self._started = self._playwright.chromium.launch(
                executable_path=program, args=[*_FLAGS, self._mark]
            )
        return self._started

    def _close(self, opened: BrowserContext) -> None:
        """Chromium sometimes never answers when it is to forget a page that is being left; then it is ended itself."""
        ended = threading.Event()
        patience = threading.Timer(CLOSING_SECONDS, _end, (self._mark, ended))
        patience.start()
        try:
            opened.close()
        except Exception:
            if not ended.is_set():
                raise
        finally:
            patience.cancel()
            patience.join()
            if ended.is_set():
                self._started = None


def _end(mark: str, ended: threading.Event) -> None:
    ended.set()
    print("Chromium does not close a context; it is ended", file=sys.stderr)
    subprocess.run(["pkill", "-KILL", "-f", "--", mark], check=False)  # it may be gone by now
