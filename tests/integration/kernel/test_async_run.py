"""Transitions from asyncio: what has begun runs to its end."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest
from notes_table import ADD, GET, ids, make_notes

from afl.kernel.database import Database, Transaction
from afl.kernel.database.base import ASYNC_THREADS

word: ContextVar[str] = ContextVar("word")


@pytest.fixture(autouse=True)
def notes(database: Database) -> None:
    make_notes(database)


def test_read_and_write_give_what_the_transition_gives(database: Database) -> None:
    async def main() -> object:
        assert await database.run("write", lambda tx: tx.run(ADD, id=1, text="a")) == 1
        row = await database.run("read", lambda tx: tx.one(GET, id=1))
        return row and row["text"]

    assert asyncio.run(main()) == "a"


def test_an_error_arrives_where_it_is_awaited(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.run(ADD, id=1, text="a")
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(database.run("write", work))
    assert ids(database) == []


def test_the_context_of_the_caller_is_there(database: Database) -> None:
    async def main() -> str:
        word.set("hello")
        return await database.run("read", lambda tx: word.get())

    assert asyncio.run(main()) == "hello"


@pytest.mark.parametrize("times", [1, 3])
def test_cancellation_comes_after_a_transition_that_has_begun(database: Database, times: int) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        tx.run(ADD, id=1, text="a")
        begun.set()
        go_on.wait()

    async def main() -> bool:
        task = asyncio.create_task(database.run("write", work))
        await asyncio.to_thread(begun.wait)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        waited = not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return waited

    assert asyncio.run(main())
    assert ids(database) == [1]


def test_a_canceled_transition_that_fails_is_canceled_quietly(database: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        begun.set()
        go_on.wait()
        raise LookupError("nobody waits for this")

    async def main() -> None:
        task = asyncio.create_task(database.run("write", work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        go_on.set()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert ids(database) == []


def test_what_has_not_begun_never_does(database: Database) -> None:
    go_on = threading.Event()
    barrier = threading.Barrier(ASYNC_THREADS + 1)
    ran: list[Transaction] = []

    def occupy() -> None:
        barrier.wait()
        go_on.wait()

    async def main() -> None:
        busy = [asyncio.wrap_future(database._threads().submit(occupy)) for _ in range(ASYNC_THREADS)]
        await asyncio.to_thread(barrier.wait)
        task = asyncio.create_task(database.run("write", ran.append))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.gather(*busy)

    asyncio.run(main())
    database.close()
    assert ran == []
