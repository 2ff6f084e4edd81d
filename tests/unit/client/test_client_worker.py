"""Workers of a client: which loop their coroutines run on, and what they refuse."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.eventually import eventually

import afl
from afl.kernel.errors import InputError
from afl.models import ScriptedModel
from afl.turns import agent

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


def test_a_worker_whose_start_is_canceled_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody leaves a block that was not entered, so it would work on, also without its store."""
    starting, go = threading.Event(), threading.Event()

    @contextmanager
    def slowly(*given: Any) -> Iterator[None]:
        starting.set()
        assert go.wait(20)
        yield

    monkeypatch.setattr("afl.client.worker.alerting", slowly)

    async def story() -> None:
        async with afl.connect(tmp_path / "c.db") as flow:
            worker = flow.worker({"Do": lambda x: {"y": x}})
            entering = asyncio.create_task(worker.__aenter__())
            assert await asyncio.to_thread(starting.wait, 20)
            entering.cancel()
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await entering
            assert worker._thread is not None
            assert not worker._thread.is_alive()

    asyncio.run(story())


def test_a_worker_whose_start_is_interrupted_ends(tmp_path: Path) -> None:
    class Interrupted(threading.Event):
        waits = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.waits += 1
            if self.waits == 1:
                raise KeyboardInterrupt
            return super().wait(timeout)

    with afl.connect(tmp_path / "i.db") as flow:
        worker = flow.worker({"Do": lambda x: {"y": x}})
        worker._up = Interrupted()
        with pytest.raises(KeyboardInterrupt), worker:
            raise AssertionError("not entered")
        assert worker._thread is not None
        assert not worker._thread.is_alive()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 2.5}, "concurrency of a worker is 2.5"),
        ({"concurrency": "5"}, "concurrency of a worker is '5'"),
        ({"shutdown_seconds": "x"}, "shutdown_seconds is a number of seconds, 0 or more, got 'x'"),
        ({"shutdown_seconds": -1}, "shutdown_seconds is a number of seconds, 0 or more, got -1"),
        ({"shutdown_seconds": float("inf")}, "shutdown_seconds is a number of seconds, 0 or more, got inf"),
        ({"task_list": 5}, "the task list is '5'"),
    ],
)
def test_options_that_a_worker_cannot_have_are_refused(options: dict[str, Any], said: str) -> None:
    with (
        afl.connect("memory://") as flow,
        pytest.raises(InputError, match=said),
        flow.worker({"Do": lambda x: {"y": x}}, **options),
    ):
        raise AssertionError("not entered")


def test_an_empty_task_list_is_that_of_the_settings(tmp_path: Path) -> None:
    with (
        afl.connect(tmp_path / "e.db") as flow,
        flow.worker({"Do": lambda x: {"y": x}}, task_list=""),
    ):
        assert flow.run(SOURCE, x=1, task_list="", timeout=20) == {"y": 1}


def test_a_worker_whose_agents_cannot_start_raises(tmp_path: Path) -> None:
    def no_shop() -> None:
        raise OSError("no shop")

    shop = ModuleType("shop")
    vars(shop).update(clerk=agent("clerk"), model=ScriptedModel(["hello"]), deps=no_shop)
    with afl.connect(tmp_path / "j.db") as flow:
        with pytest.raises(OSError, match="no shop"), flow.worker(shop):
            raise AssertionError("started")
        with pytest.raises(OSError, match="no shop"):
            afl.run(
                "workflow W() => (y: Int) andThen { yield W(y = 1) }",
                handlers=shop,
                store=f"sqlite:///{tmp_path}/j.db",
            )


def test_a_worker_whose_agents_cannot_end_raises(tmp_path: Path) -> None:
    @contextmanager
    def fallen_shop() -> Iterator[str]:
        yield "shop"
        raise OSError("the shop fell down")

    shop = ModuleType("shop")
    vars(shop).update(clerk=agent("clerk"), model=ScriptedModel(["hello"]), deps=fallen_shop)
    with (
        afl.connect(tmp_path / "j.db") as flow,
        pytest.raises(OSError, match="fell down"),
        flow.worker(shop) as worker,
    ):
        assert worker.facets == ["agent clerk"]
