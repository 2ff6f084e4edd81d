"""The README's pictures: a completed run of the newsroom. Kept where AFL_PICTURES says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from afl.operations.program.agents import load_module
from afl.operations.program.sources import program_of
from afl.operations.run import runs
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers
from browser.gestures import heading
from browser.live_system import LiveSystem
from browser.looks import LOOKS, Look
from browser.page_watch import PageWatch

NEWSROOM = Path(__file__).parents[2] / "examples" / "newsroom"
WINDOW = {"width": 1280, "height": 920}


def morning(url: str) -> str:
    """A completed run."""
    handlers = Handlers.of(load_module(str(NEWSROOM / "agents.py")))
    program = program_of((NEWSROOM / "newsroom.afl").read_text(), name="newsroom.afl")
    store = open_store(url)
    try:
        return runs.start(store, program, handlers=handlers, concurrency=16).run
    finally:
        store.close()


@pytest.fixture(scope="module")
def newsroom(live: LiveSystem, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a dashboard with that run, at its graph."""
    url = f"sqlite:///{tmp_path_factory.mktemp('newsroom')}/afl.db"
    run = live.do(morning, url)
    return f"{live.dashboard('--store', url)}/runs/{run}"


@pytest.mark.parametrize("look", LOOKS[:2], ids=lambda look: look.name)
def test_the_picture_of_a_run(
    page: Page, watch: PageWatch, newsroom: str, look: Look, tmp_path: Path
) -> None:
    name = "dashboard.png" if look.name == "light" else f"dashboard-{look.name}.png"
    watch.allow_host(newsroom)
    page.set_viewport_size(WINDOW)
    page.goto(newsroom)
    expect(heading(page)).to_contain_text("newsroom.MorningPage")
    expect(page.locator(".graph")).to_contain_text("Summarize")
    expect(page.locator("[data-link-state='on']")).to_be_visible()
    made = Path(os.environ.get("AFL_PICTURES", tmp_path)) / name
    made.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=made)
    assert made.read_bytes().startswith(b"\x89PNG")
