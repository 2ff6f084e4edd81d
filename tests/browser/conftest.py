"""A browser and a live system for each worker; for each test a fresh context that is watched.

The fixtures of a worker are those of this package, not of the session: while Playwright is there, nobody else in this
process can run an event loop, and other tests want to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from support.chromium import Chromium, find_chromium
from support.parallel import PROCESS
from support.warm_processes import WarmProcesses

from browser.live_system import PRELOADED, LiveSystem
from browser.looks import LOOKS, Look
from browser.page_watch import PageWatch
from browser.screenshots import keep_screenshot
from browser.seeds import Seeds, sow

# Without a browser they are left out, and the end of the session says so, loudly.
collect_ignore_glob = [] if find_chromium() else ["test_*.py"]
_PATIENCE_MS = 15_000  # for what is awaited; nothing is expected to take that long
expect.set_options(timeout=_PATIENCE_MS)


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[LiveSystem]:
    """The system that tests look at; what they change in it is their own."""
    # The pages read the default key prefix, so each worker needs a database of its own.
    worker = int(os.environ.get(PROCESS, "0"))
    redis = f"{redis_url.rstrip('/').removesuffix('/0')}/{14 - worker % 4}"
    with WarmProcesses(*PRELOADED) as processes:
        system = LiveSystem(tmp_path_factory.mktemp("live"), processes, redis)
        try:
            system.start()
            yield system
        finally:
            system.close()


@pytest.fixture(scope="package")
def seeds(live: LiveSystem, browser: Chromium) -> Seeds:
    """One of everything, in every state."""
    return live.do(sow, live)


@pytest.fixture(scope="package")
def browser() -> Iterator[Chromium]:
    with Chromium() as started:
        yield started


@pytest.fixture(params=LOOKS, ids=lambda look: look.name)
def look(request: pytest.FixtureRequest) -> Look:
    """Light, dark and phone; a test that asks for it runs in each."""
    found: Look = request.param
    return found


@pytest.fixture
def context(request: pytest.FixtureRequest, browser: Chromium, live: LiveSystem) -> Iterator[BrowserContext]:
    look = request.getfixturevalue("look") if "look" in request.fixturenames else LOOKS[0]
    with browser.context(base_url=live.url, **look.options) as opened:
        opened.set_default_timeout(_PATIENCE_MS)
        yield opened


@pytest.fixture
def watch(context: BrowserContext, live: LiveSystem) -> Iterator[PageWatch]:
    watching = PageWatch(context, live.url)
    yield watching
    watching.check()


@pytest.fixture
def page(context: BrowserContext, watch: PageWatch, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of the dashboard: `page.goto("/runs")`. What it looked like when a test failed is kept if asked for."""
    opened = context.new_page()
    yield opened
    keep_screenshot(opened, request.node.name)
