"""The embedded store: one SQLite file, several processes."""

from __future__ import annotations

from afl.kernel.database import connect
from afl.runtime.sql_store import SqlStore


class SqliteStore(SqlStore):
    """`sqlite:///path`; the folder of the default path is made."""

    def __init__(self, url: str = "sqlite:///.afl/afl.db") -> None:
        super().__init__(connect(url))
