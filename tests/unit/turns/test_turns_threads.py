"""Threads for a loop: what they return, what a cancellation waits for, and that one who was left is in nobody's way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from afl.turns.worker.threads import Threads

SECONDS = 30
_here: ContextVar[str] = ContextVar("_here", default="")


@contextmanager
def threads(most: int = 4) -> Iterator[Threads]:
    made = Threads(most, "test-threads")
    yield made
    made.close()


def test_results_and_errors_come_back() -> None:
    def fail() -> None:
        raise ValueError("no")

    async def work() -> None:
        with threads() as pool:
            _here.set("caller")
            assert await pool.call(_here.get) == "caller"
            with pytest.raises(ValueError, match="no"):
                await pool.call(fail)
            assert sorted(await asyncio.gather(*(pool.call(lambda n=n: n) for n in range(50)))) == list(
                range(50)
            )

    asyncio.run(work())


@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration, GeneratorExit, SystemExit])
def test_what_no_future_can_carry_comes_back(kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind("no more")

    async def work() -> None:
        with threads() as pool:
            async with asyncio.timeout(SECONDS):
                with pytest.raises(RuntimeError, match=f"{kind.__name__}: no more"):
                    await pool.call(fail)

    asyncio.run(work())


def test_no_more_threads_than_are_wanted() -> None:
    names: set[int] = set()

    async def work() -> None:
        with threads(3) as pool:
            for _ in range(5):  # one after another: one thread
                await pool.call(lambda: names.add(threading.get_ident()))
            assert len(names) == 1
            gate = threading.Barrier(3)
            await asyncio.gather(*(pool.call(lambda: gate.wait(SECONDS)) for _ in range(3)))

    asyncio.run(work())


def test_a_cancellation_comes_after_what_has_begun() -> None:
    begun, end, ended = threading.Event(), threading.Event(), []

    def slow() -> None:
        begun.set()
        end.wait(SECONDS)
        ended.append(1)

    async def work() -> None:
        with threads() as pool:
            task = asyncio.create_task(pool.call(slow))
            await asyncio.to_thread(begun.wait, SECONDS)
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
            end.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended == [1]

    asyncio.run(work())


def test_whoever_leaves_is_gone_at_once_and_in_nobodys_way() -> None:
    begun, end = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        end.wait(SECONDS)

    async def work() -> None:
        with threads() as pool:
            task = asyncio.create_task(pool.call(slow, leaving=True))
            await asyncio.to_thread(begun.wait, SECONDS)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.wait_for(pool.call(lambda: "free"), SECONDS) == "free"
            assert not end.is_set()
            end.set()

    asyncio.run(work())
