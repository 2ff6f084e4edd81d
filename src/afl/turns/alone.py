"""A transition that is one statement needs no BEGIN and COMMIT around it: it is a transaction by itself.

On PostgreSQL that is one round trip in place of three. The transitions of a head, a claim and a single reading are
such; a second statement is refused, since it would not be one with the first.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from afl.kernel.database import Database, Query, Row, Transaction
from afl.kernel.errors import StoreError

T = TypeVar("T")
THREADS = 8


class OneStatement(Transaction):
    """A transaction of one statement, committed with it."""

    __slots__ = ("_database", "_used")

    dialect = "postgres"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._used = False

    def all(self, query: Query, /, **params: Any) -> list[Row]:
        if self._used:
            raise StoreError(
                f"query {query.name} is a second statement: use a transaction of its own for both"
            )
        self._used = True
        return self._database.atomic(query, **params)

    def one(self, query: Query, /, **params: Any) -> Row | None:
        rows = self.all(query, **params)
        return rows[0] if rows else None

    def run(self, query: Query, /, **params: Any) -> int:
        return len(self.all(query, **params))

    def many(self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> int:
        raise StoreError(f"query {query.name} is many statements: use a transaction of its own")


def alone(database: Database, work: Callable[[Transaction], T], *, passing: bool = False) -> T:
    """What `work` returns: its one statement is committed. Where statements cost no round trip, any number.

    `passing`: it is done once more should this machine go down, see `Database.write_passing`.
    """
    if database.dialect == "postgres":
        return work(OneStatement(database))
    return database.write_passing(work) if passing else database.write(work)


class Alone:
    """`alone` from asyncio. What has begun runs to its end; a cancellation comes after it.

    Four of these are a turn, so its threads do only what is needed: one queue, one call back into the loop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0  # calls under way; the loop alone counts them

    async def run(self, work: Callable[[Transaction], T], *, passing: bool = False) -> T:
        result: T = await self._called(lambda: alone(self._database, work, passing=passing))
        return result

    async def select(self, query: Query, **params: Any) -> list[Row]:
        """One statement that reads a few rows by an index; from a file that is done sooner than a thread is asked."""
        if self._database.dialect == "sqlite":
            return self._database.select(query, **params)
        rows: list[Row] = await self._called(lambda: self._database.select(query, **params))
        return rows

    def close(self) -> None:
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    async def _called(self, work: Callable[[], Any]) -> Any:
        call = _Call(asyncio.get_running_loop(), copy_context(), work)
        self._open += 1
        if self._open > len(self._threads) < THREADS:
            thread = threading.Thread(target=self._serve, name="afl-turns", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._calls.put(call)
        try:
            return await call.outcome()
        finally:
            self._open -= 1

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()


class _Call:
    """Work for a thread, and the future of the loop that waits for it."""

    __slots__ = ("_context", "_ended", "_future", "_loop", "_unwanted", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context, work: Callable[[], Any]) -> None:
        self._loop = loop
        self._context = context
        self._work = work
        self._future = loop.create_future()
        self._ended = self._unwanted = False

    async def outcome(self) -> Any:
        """In the loop: what came of it. Whoever is cancelled learns it when the work has ended, or cannot begin."""
        try:
            return await self._future
        except asyncio.CancelledError:
            self._unwanted = True
            if not self._ended:
                self._future = self._loop.create_future()
                await asyncio.wait([self._future])
                self._future.exception()  # nobody asks for it any more
            raise

    def make(self) -> None:
        """On a thread."""
        result, error = None, None
        try:
            if not self._unwanted:
                result = self._context.run(self._work)
        except BaseException as raised:  # whatever it is, it is the caller's
            error = raised
        try:
            self._loop.call_soon_threadsafe(self._end, result, error)
        except RuntimeError:
            return  # the loop was closed without waiting; there is nobody to tell

    def _end(self, result: Any, error: BaseException | None) -> None:
        self._ended = True
        if self._future.done():
            return
        if error is None:
            self._future.set_result(result)
        else:
            self._future.set_exception(error)
