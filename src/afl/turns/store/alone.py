"""A transition that is one statement needs no BEGIN and COMMIT around it: it is a transaction by itself.

On PostgreSQL that is one round trip in place of three. The transitions of a head, a claim and a single reading are
such; a second statement is refused, since it would not be one with the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from afl.kernel.database import Database, Query, Row, Transaction
from afl.kernel.errors import StoreError
from afl.turns.worker.threads import Threads

T = TypeVar("T")
_THREADS = 8


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
    """`alone` from asyncio. What has begun runs to its end; a cancellation comes after it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = Threads(_THREADS, "afl-turns")

    async def run(self, work: Callable[[Transaction], T], *, passing: bool = False) -> T:
        result: T = await self._threads.call(lambda: alone(self._database, work, passing=passing))
        return result

    async def select(self, query: Query, **params: Any) -> list[Row]:
        """One statement that reads a few rows by an index; from a file that is done sooner than a thread is asked."""
        if self._database.dialect == "sqlite":
            return self._database.select(query, **params)
        rows: list[Row] = await self._threads.call(lambda: self._database.select(query, **params))
        return rows

    def close(self) -> None:
        self._threads.close()
