"""The store in one SQLite file, for every process of one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from afl.kernel.clock import steady_ms
from afl.kernel.database.base import Database, Row, Transaction
from afl.kernel.database.lock_wait import LOCK_TIMEOUT_MS, LockHolder
from afl.kernel.database.queries import Query
from afl.kernel.database.schema import Schema, ensure
from afl.kernel.database.sqlite_file import close_file, open_file
from afl.kernel.presence import Presence

T = TypeVar("T")


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
        return steady_ms() + self._file.shift

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
