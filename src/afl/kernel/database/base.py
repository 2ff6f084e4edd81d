"""The database as the rest of AgentFlow sees it: transitions over an open transaction, and nothing else.

A transition is a plain function that is given a Transaction. It may be run again from its start when the
store asks for that (a deadlock, a lost connection before the commit), so it has no effect but through its
transaction. The first statement that fails ends the transaction on every dialect: a transition that catches that error
cannot commit the rest.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import register_at_fork
from threading import get_ident
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from afl.kernel.clock import wall_ms
from afl.kernel.database.dialect import Dialect
from afl.kernel.database.queries import Query
from afl.kernel.database.schema import Schema
from afl.kernel.errors import StoreError
from afl.kernel.file_lock import LockHolder
from afl.kernel.presence import Presence

T = TypeVar("T")
ASYNC_THREADS = 8


class Row(Protocol):
    """One row: `row["column"]`; `dict(row)` gives all of it."""

    def __getitem__(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


Statement = tuple[Query, Mapping[str, Any]]


class Transaction(ABC):
    """An open transaction; of no use once the transition it was given to has returned."""

    __slots__ = ()

    dialect: ClassVar[Dialect]

    @abstractmethod
    def all(self, query: Query, /, **params: Any) -> list[Row]:
        """Every row the statement gives."""

    @abstractmethod
    def one(self, query: Query, /, **params: Any) -> Row | None:
        """The first row, or None."""

    @abstractmethod
    def run(self, query: Query, /, **params: Any) -> int:
        """How many rows the statement returned or changed."""

    def queue(self, query: Query, /, **params: Any) -> None:
        """Execute the statement without its result, with or before the next statement that has one, or the commit.

        An error may be raised there. PostgreSQL gets all queued statements in one round trip. By this and `each` a turn
        has 9 round trips in place of 29.
        """
        self.run(query, **params)

    def each(self, *statements: Statement) -> list[list[Row]]:
        """The rows of every statement, executed in this order; PostgreSQL gets them in one round trip."""
        return [self.all(query, **params) for query, params in statements]

    @abstractmethod
    def many(self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> int:
        """The statement once per row of parameters (a tuple: in the order of the text); how many rows in all."""


class Database(ABC):
    """One store. Safe to use from any thread, and after a fork."""

    dialect: Dialect

    def __init__(self, url: str) -> None:
        self.url = url
        self.closed = False
        self._inside: set[int] = set()
        self._executor: ThreadPoolExecutor | None = None
        self._executor_guard = threading.Lock()
        _databases.add(self)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What `work` returns, run on one snapshot of the store."""
        thread = self._enter()
        try:
            return self._read(work)
        finally:
            self._inside.discard(thread)

    def write(self, work: Callable[[Transaction], T], *, durable: bool = True) -> T:
        """What `work` returns, once everything it wrote is durable; when it raises, nothing was written.

        Not `durable` is for what is void, or done once more, when this machine goes down, such as a claim of one of its
        processes. Where only this machine's processes have the store, it is not synced to the disk, which halves the
        time. The order stays: it is durable before anything that is written later is.
        """
        thread = self._enter()
        try:
            return self._write(work, durable)
        finally:
            self._inside.discard(thread)

    def execute(self, query: Query, /, **params: Any) -> int:
        """One statement that is a whole write transaction; how many rows it returned or changed."""
        return self.write(lambda tx: tx.run(query, **params))

    def atomic(self, query: Query, /, *, durable: bool = True, **params: Any) -> list[Row]:
        """As `execute`, but its rows, and never repeated when a connection is lost; `durable` as in `write`."""
        return self.write(lambda tx: tx.all(query, **params), durable=durable)

    def select(self, query: Query, /, **params: Any) -> list[Row]:
        """One statement that is a whole read transaction."""
        return self.read(lambda tx: tx.all(query, **params))

    async def run(self, verb: Literal["read", "write"], work: Callable[[Transaction], T]) -> T:
        """`read` or `write` from asyncio. A transition that has begun ends before a cancellation is raised."""
        call = self.read if verb == "read" else self.write
        return await self._in_thread(lambda: call(work))

    async def fetch(self, query: Query, /, **params: Any) -> list[Row]:
        """`select` from asyncio."""
        return await self._in_thread(lambda: self.select(query, **params))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        from afl.kernel.database.async_call import in_thread  # noqa: PLC0415  asyncio, which few commands need

        return await in_thread(self._threads(), call)

    @abstractmethod
    def ensure(self, schema: Schema) -> None:
        """Create the tables of one part, or bring them up to date."""

    @abstractmethod
    def now(self) -> int:
        """The store's clock in milliseconds: the one that `{now}` reads in a query."""

    def wall_clock(self) -> int:
        """The clock that calendars go by, in milliseconds: the server's, or this machine's where there is none."""
        return wall_ms()

    def write_lock(self) -> LockHolder | None:
        """The process that keeps all others from writing, if there is one. Does not wait."""
        return None

    @property
    @abstractmethod
    def presence(self) -> Presence:
        """The liveness lock of this process, and those of others."""

    @abstractmethod
    def _read(self, work: Callable[[Transaction], T]) -> T: ...

    @abstractmethod
    def _write(self, work: Callable[[Transaction], T], durable: bool) -> T: ...

    @abstractmethod
    def _close(self) -> None: ...

    @abstractmethod
    def _after_fork(self) -> None:
        """In a forked child: forget the parent's connections without closing them."""

    def close(self) -> None:
        """Close every connection. Transitions under way end first; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        self._close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def _enter(self) -> int:
        """A transition inside another on the same thread would wait for itself, so it is refused."""
        if self.closed:
            raise StoreError(f"{self!r} is closed")
        thread = get_ident()
        if thread in self._inside:
            raise StoreError("a transaction inside a transaction: use the one your function was given")
        self._inside.add(thread)
        return thread

    def _threads(self) -> ThreadPoolExecutor:
        with self._executor_guard:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(ASYNC_THREADS, thread_name_prefix="afl-database")
            return self._executor

    def _forked(self) -> None:
        self._inside = set()
        self._executor = None
        self._executor_guard = threading.Lock()
        self._after_fork()


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _reopen_in_child() -> None:
    for database in list(_databases):
        if not database.closed:
            database._forked()


register_at_fork(after_in_child=_reopen_in_child)
