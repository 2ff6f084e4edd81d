"""Databases that stay open between the tests of a process, as most tests need none of their own.

To open a PostgreSQL store takes server and test 25 ms, which is more than most tests take for the rest: two sessions
are started, and each of them reads the server's catalog and plans its statements anew.
"""

from __future__ import annotations

from afl.kernel.database import Schema
from afl.kernel.database.postgres import PostgresDatabase
from afl.runtime.postgres_store import FUNCTIONS, PostgresStore
from afl.runtime.stores.sql_store import SqlStore


class KeptDatabase(PostgresDatabase):
    """A PostgreSQL database; who closes it leaves it to the next one who asks for one, with its sessions."""

    def __init__(self, url: str, idle: list[KeptDatabase]) -> None:
        super().__init__(url)
        self._idle = idle
        self._ensured: set[Schema] = set()

    def ensure(self, schema: Schema) -> None:
        """The tables are looked for once: no test drops any."""
        if schema not in self._ensured:
            super().ensure(schema)
            self._ensured.add(schema)

    def close(self) -> None:
        if self not in self._idle:
            self._idle.append(self)

    def end(self) -> None:
        """Close it indeed."""
        super().close()


class KeptDatabases:
    """The open databases on one URL. Those in use at the same time are as many processes to each other."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[KeptDatabase] = []

    def take(self) -> KeptDatabase:
        return self._idle.pop() if self._idle else KeptDatabase(self._url, self._idle)

    def store(self) -> PostgresStore:
        """A store over one of them."""
        return KeptPostgresStore(self.take())

    def close(self) -> None:
        for database in self._idle:
            database.end()
        self._idle.clear()


class KeptPostgresStore(PostgresStore):
    """The PostgreSQL store over a database that is there."""

    def __init__(self, database: KeptDatabase) -> None:
        SqlStore.__init__(self, database)
        database.ensure(FUNCTIONS)
