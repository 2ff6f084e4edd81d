"""Every page, in light, dark and on a phone: it opens, is accessible, fits the window, and says what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.accessibility import check_accessible, check_contrast_in_the_dark, check_fits
from browser.looks import LOOKS, Look
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


def opened(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    check_accessible(page)
    check_fits(page)
    assert page.evaluate("window.marked") is None, "markup in a payload was run as a script"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_light_and_dark(page: Page, seeds: Seeds, name: str) -> None:
    opened(page, PAGES[name](seeds))
    light = page.evaluate(_BACKGROUND)
    check_contrast_in_the_dark(page)
    assert page.evaluate(_BACKGROUND) != light


@pytest.mark.parametrize("look", LOOKS[2:], ids=lambda look: look.name)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_on_a_phone(page: Page, seeds: Seeds, look: Look, name: str) -> None:
    opened(page, PAGES[name](seeds))


_BACKGROUND = "getComputedStyle(document.body).backgroundColor"
