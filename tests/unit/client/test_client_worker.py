"""Workers of a client: which loop their coroutines run on, and what they refuse."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from support.eventually import eventually

import afl

SOURCE = """
event facet Do(x: Int) => (y: Int)

workflow W(x: Int) => (y: Int) andThen {
    d = Do(x = $.x)
    yield W(y = d.y)
}
"""


def test_a_sync_block_inside_a_running_loop_does_not_wait_for_that_loop(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    async def do(x: int) -> dict[str, int]:
        threads.append(threading.current_thread())
        return {"y": x + 1}

    async def cell() -> None:
        with afl.connect(tmp_path / "j.db") as flow, flow.worker({"Do": do}, shutdown_seconds=1):
            assert flow.run(SOURCE, x=1, timeout=20) == {"y": 2}

    asyncio.run(cell())
    assert threading.current_thread() not in threads


def test_an_async_block_runs_coroutines_on_its_own_loop(tmp_path: Path) -> None:
    async def do(x: int) -> dict[str, int]:
        assert threading.current_thread() is threading.main_thread()
        return {"y": x + 1}

    async def story() -> None:
        async with afl.connect(tmp_path / "j.db") as flow, flow.worker({"Do": do}):
            assert await flow.run(SOURCE, x=1, timeout=20) == {"y": 2}

    asyncio.run(story())


def test_a_misspelled_handler_is_reported_once_a_workflow_is_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with afl.connect(tmp_path / "t.db") as flow, flow.worker({"Doo": lambda x: {"y": x}}):
        assert caplog.messages == []
        handles = [flow.start(SOURCE, x=1), flow.start(SOURCE, x=2)]
        eventually(lambda: all("Do" in each.why().cause.sentence for each in handles))
    reported = [text for text in caplog.messages if "did you mean 'Do'" in text]
    assert len(reported) == 1
