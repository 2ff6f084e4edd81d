"""The store in this process's memory: one SQLite connection, of which everyone takes turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from afl.kernel.clock import steady_ms, wall_ms
from afl.kernel.database.base import Database, Transaction
from afl.kernel.database.schema import Schema, ensure
from afl.kernel.database.sqlite_file import connect_sqlite
from afl.kernel.database.sqlite_transaction import ReadTransaction, SqliteTransaction
from afl.kernel.presence import LonePresence, Presence

T = TypeVar("T")


class MemoryDatabase(Database):
    """Private to the object that opened it, and gone with it."""

    dialect = "sqlite"

    def __init__(self, url: str) -> None:
        self._connection = connect_sqlite(":memory:", url)
        self._turn = threading.Lock()
        self._shift = wall_ms() - steady_ms()
        self._presence = LonePresence()
        super().__init__(url)

    @property
    def presence(self) -> Presence:
        return self._presence

    def ensure(self, schema: Schema) -> None:
        ensure(self, schema)

    def now(self) -> int:
        return steady_ms() + self._shift

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with self._turn:
            self._connection.execute("PRAGMA query_only = on")
            try:
                return self._transact(work, ReadTransaction(self._connection, self.url, self._shift))
            finally:
                self._connection.execute("PRAGMA query_only = off")

    def _write(self, work: Callable[[Transaction], T], durable: bool) -> T:
        with self._turn:
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
