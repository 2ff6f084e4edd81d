"""The embedded store: one SQLite file, several processes."""

from __future__ import annotations

from afl.kernel.database import connect
from afl.kernel.file_lock import LOCK_TIMEOUT_MS
from afl.runtime.stores.sql_store import SqlStore


class SqliteStore(SqlStore):
    """`sqlite:///path`; the folder of the default path is made."""

    def __init__(self, url: str = "sqlite:///.afl/afl.db", lock_timeout_ms: int = LOCK_TIMEOUT_MS) -> None:
        super().__init__(connect(url, lock_timeout_ms=lock_timeout_ms))
