"""Every page, in light, dark and on a phone: it opens, is accessible, fits the window, and says what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.accessibility import check_accessible, check_fits
from browser.looks import Look
from browser.seeds import Seeds

pytestmark = pytest.mark.xdist_group("browser-pages")

PAGES: dict[str, Callable[[Seeds], str]] = {
    "runs": lambda seeds: "/runs",
    "runs-filtered": lambda seeds: "/runs?state=failed",
    "graph": lambda seeds: f"/runs/{seeds.completed}?view=graph",
    "graph-failed": lambda seeds: f"/runs/{seeds.failed}?view=graph",
    "timeline": lambda seeds: f"/runs/{seeds.completed}?view=timeline",
    "tree": lambda seeds: f"/runs/{seeds.completed}?view=tree",
    "many": lambda seeds: f"/runs/{seeds.many}?view=graph",
    "waiting": lambda seeds: f"/runs/{seeds.waiting}",
    "marked": lambda seeds: f"/runs/{seeds.marked}?view=tree",
    "step": lambda seeds: f"/runs/{seeds.completed}/steps/call",
    "step-failed": lambda seeds: f"/runs/{seeds.marked}/steps/piece",
    "start": lambda seeds: "/start",
    "approvals": lambda seeds: "/approvals",
    "tasks": lambda seeds: "/tasks",
    "servers": lambda seeds: "/servers",
    "schedules": lambda seeds: "/schedules",
    "turns": lambda seeds: "/turns",
    "turn": lambda seeds: f"/turns/{seeds.turn}",
    "agent": lambda seeds: "/agents/clerk",
    "fleet": lambda seeds: "/fleet",
    "fleet-workflow": lambda seeds: "/fleet/workflows/nightly",
    "fleet-run": lambda seeds: f"/fleet/runs/{seeds.fleet_run}",
    "messages": lambda seeds: "/messages",
    "dead-letters": lambda seeds: "/messages/dead",
    "audit": lambda seeds: "/audit",
    "search": lambda seeds: "/search?q=shop",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_is_accessible_and_fits(page: Page, seeds: Seeds, look: Look, name: str) -> None:
    page.goto(PAGES[name](seeds))
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    check_accessible(page)
    check_fits(page)
    assert page.evaluate("window.marked") is None, "markup in a payload was run as a script"
