"""Every page, in light, dark and on a phone: it opens, is accessible, fits the window, and says what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import CDPSession, Page, expect
from support.chromium import Chromium

from browser.accessibility import check_accessible, check_contrast_in_the_dark, check_fits, settle
from browser.live_system import LiveSystem
from browser.looks import LOOKS, Look
from browser.page_watch import PageWatch
from browser.screenshots import keep_screenshot
from browser.seeds import Seeds

PAGES: dict[str, Callable[[Seeds], str]] = {
    "overview": lambda seeds: "/overview",
    "runs": lambda seeds: "/runs",
    "waiting runs": lambda seeds: "/runs?state=waiting",
    "bulk": lambda seeds: "/bulk?action=cancel&state=waiting",
    "graph": lambda seeds: f"/runs/{seeds.completed}?view=graph",
    "timeline": lambda seeds: f"/runs/{seeds.completed}?view=timeline",
    "tree": lambda seeds: f"/runs/{seeds.completed}?view=tree",
    "many": lambda seeds: f"/runs/{seeds.many}?view=graph",
    "waiting": lambda seeds: f"/runs/{seeds.waiting}",
    "log": lambda seeds: f"/runs/{seeds.completed}?view=log",
    "marked": lambda seeds: f"/runs/{seeds.marked}?view=tree",
    "step": lambda seeds: f"/runs/{seeds.completed}/steps/call",
    "step-failed": lambda seeds: f"/runs/{seeds.marked}/steps/piece",
    "compare": lambda seeds: f"/compare?first={seeds.completed}&second={seeds.marked}",
    "start": lambda seeds: "/start",
    "start-form": lambda seeds: "/start?workflow=shop.Inventory",
    "flows": lambda seeds: "/flows",
    "flow": lambda seeds: f"/flows/{seeds.flow}",
    "flow-json": lambda seeds: f"/flows/{seeds.flow}?view=json",
    "approvals": lambda seeds: "/approvals",
    "approval": lambda seeds: f"/approvals/{seeds.approval}",
    "tasks": lambda seeds: "/tasks",
    "task": lambda seeds: f"/tasks/{seeds.approval}",
    "servers": lambda seeds: "/servers",
    "schedules": lambda seeds: "/schedules",
    "schedule-new": lambda seeds: "/schedules/new?workflow=shop.Inventory",
    "turns": lambda seeds: "/turns",
    "turn": lambda seeds: f"/turns/{seeds.turn}",
    "agent": lambda seeds: "/agents/clerk",
    "fleet": lambda seeds: "/fleet",
    "fleet-workflow": lambda seeds: "/fleet/workflows/nightly",
    "fleet-run": lambda seeds: f"/fleet/runs/{seeds.fleet_run}",
    "messages": lambda seeds: "/messages",
    "dead-letters": lambda seeds: "/messages/dead",
    "audit": lambda seeds: "/audit",
    "api": lambda seeds: "/api/v1/docs",
    "search": lambda seeds: "/search?q=shop",
}
LIGHT, _, PHONE = LOOKS


class Window(NamedTuple):
    page: Page
    watch: PageWatch
    cdp: CDPSession

    def become(self, look: Look) -> None:
        """The size and the touch screen of a look, for the page that is open."""
        options = look.options
        metrics = {**options["viewport"], "deviceScaleFactor": 1, "mobile": options.get("is_mobile", False)}
        self.cdp.send("Emulation.setDeviceMetricsOverride", metrics)
        self.cdp.send("Emulation.setTouchEmulationEnabled", {"enabled": options.get("has_touch", False)})
        self.page.emulate_media(color_scheme=options["color_scheme"])


@pytest.fixture(scope="module")
def window(browser: Chromium, live: LiveSystem) -> Iterator[Window]:
    """One for all addresses: they are only looked at, and a context for each takes longer."""
    with browser.context(base_url=live.url, **LIGHT.options) as context:
        page = context.new_page()
        yield Window(page, PageWatch(context, live.url), context.new_cdp_session(page))


@pytest.fixture
def page(window: Window, request: pytest.FixtureRequest) -> Iterator[Page]:
    window.watch.problems.clear()
    window.become(LIGHT)
    yield window.page
    keep_screenshot(window.page, f"{request.node.name}-{PHONE.name}")
    window.watch.check()


@pytest.mark.parametrize("name", PAGES)
def test_a_page(window: Window, page: Page, seeds: Seeds, name: str, request: pytest.FixtureRequest) -> None:
    page.goto(PAGES[name](seeds))
    check_page(page)
    light = page.evaluate(_BACKGROUND)
    check_contrast_in_the_dark(page)
    assert page.evaluate(_BACKGROUND) != light
    keep_screenshot(page, request.node.name)
    window.become(PHONE)
    if page.locator("[data-graph]").count():
        page.reload()  # a graph is laid out for the width that it finds
    assert page.evaluate("document.documentElement.clientWidth") == PHONE.options["viewport"]["width"]
    settle(page)
    check_page(page)


def check_page(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    check_accessible(page)
    check_fits(page)
    assert page.evaluate("window.marked") is None, "markup in a payload was run as a script"


_BACKGROUND = "getComputedStyle(document.body).backgroundColor"
