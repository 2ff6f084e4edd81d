"""The store in one SQLite file for every process of one machine, and the one in memory for one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from afl.kernel.clock import steady_ms, wall_ms
from afl.kernel.database.base import Database, Row, Transaction
from afl.kernel.database.memory_images import Made, copy_tables, keep_tables, made_of
from afl.kernel.database.migration import ensure
from afl.kernel.database.queries import Query, queries
from afl.kernel.database.schema import Schema
from afl.kernel.database.sqlite_file import close_file, connect_sqlite, open_file
from afl.kernel.database.sqlite_transaction import MemoryReadTransaction, SqliteTransaction
from afl.kernel.file_lock import LOCK_TIMEOUT_MS, LockHolder
from afl.kernel.presence import LonePresence, Presence

T = TypeVar("T")
Q = queries("afl.kernel.database", "sql")


class SqliteDatabase(Database):
    """Durable (WAL, synchronous=FULL), fair between processes, and never "locked"."""

    dialect = "sqlite"

    def __init__(self, url: str, path: str, lock_timeout_ms: int = LOCK_TIMEOUT_MS) -> None:
        self._file = open_file(path, lock_timeout_ms)
        super().__init__(url)

    @property
    def path(self) -> str:
        """The file's real path."""
        return self._file.path

    @property
    def presence(self) -> Presence:
        return self._file.presence

    def ensure(self, schema: Schema) -> None:
        ensure(self, schema)

    def now(self) -> int:
        return steady_ms() + self._file.shift + self._file.skipped_ms

    def wall_clock(self) -> int:
        return wall_ms() + self._file.skipped_ms

    def allow_time_skipping(self) -> None:
        """For tests: keep in the file how far its clock is ahead, and read that in every transaction."""

        def create(tx: Transaction) -> None:
            tx.run(Q.create_skipped_time)
            tx.run(Q.start_skipped_time)

        self.write(create)
        self._file.writer.skips_time = True

    async def fetch(self, query: Query, /, **params: Any) -> list[Row]:
        """In the event loop's thread: a few rows by an index take less time than a change of thread."""
        return self.select(query, **params)

    def atomic(self, query: Query, /, *, durable: bool = True, **params: Any) -> list[Row]:
        thread = self._enter()
        try:
            return self._file.writer.write_one(query, params, durable=durable)
        finally:
            self._inside.discard(thread)

    def write_lock(self) -> LockHolder | None:
        return self._file.stuck()

    def _read(self, work: Callable[[Transaction], T]) -> T:
        return self._file.read(work)

    def _write(self, work: Callable[[Transaction], T], durable: bool) -> T:
        return self._file.writer.write(work, durable=durable)

    def _close(self) -> None:
        close_file(self._file)

    def _after_fork(self) -> None:
        """The file itself is reset once, however many databases share it."""


class MemoryDatabase(Database):
    """Private to the object that opened it, and gone with it."""

    dialect = "sqlite"

    def __init__(self, url: str) -> None:
        self._connection = connect_sqlite(":memory:", url)
        self._turn = threading.Lock()
        self._shift = wall_ms() - steady_ms()
        self._presence = LonePresence()
        self._made: tuple[Made, ...] = ()  # all tables there are, as long as there were as many writes
        self._writes = 0
        super().__init__(url)

    @property
    def presence(self) -> Presence:
        return self._presence

    def ensure(self, schema: Schema) -> None:
        if self._writes > len(self._made) or schema.name in (name for name, *_ in self._made):
            ensure(self, schema)
            return
        made = (*self._made, made_of(schema))
        if not self._copied(made):
            ensure(self, schema)
            with self._turn:
                if self._writes == len(made) and self._made == made[:-1]:
                    self._made = made
                    keep_tables(made, self._connection)

    def _copied(self, made: tuple[Made, ...]) -> bool:
        """Copy the tables, if nobody has written meanwhile."""
        thread = self._enter()
        try:
            with self._turn:
                untouched = self._writes == len(self._made) and self._made == made[:-1]
                if not untouched or not copy_tables(made, self._connection):
                    return False
                self._made, self._writes = made, len(made)
                return True
        finally:
            self._inside.discard(thread)

    def now(self) -> int:
        return steady_ms() + self._shift

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with self._turn:
            return self._transact(work, MemoryReadTransaction(self._connection, self.url, self._shift))

    def _write(self, work: Callable[[Transaction], T], durable: bool) -> T:
        with self._turn:
            self._writes += 1
            return self._transact(work, SqliteTransaction(self._connection, self.url, self._shift))

    def _transact(self, work: Callable[[Transaction], T], tx: SqliteTransaction) -> T:
        self._connection.execute("BEGIN")
        try:
            result = work(tx)
            tx.check()
            tx.commit()
        finally:
            tx.end()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        return result

    def _close(self) -> None:
        with self._turn:
            self._connection.close()

    def _after_fork(self) -> None:
        """The child has a copy of the parent's memory; a transition under way there is not its own."""
        self._turn = threading.Lock()
        self._presence.forked()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
