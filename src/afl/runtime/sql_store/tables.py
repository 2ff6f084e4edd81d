"""What all the tables of the SQL stores share: the database and the queries."""

from __future__ import annotations

from afl.kernel.database import Database, Schema, queries
from afl.kernel.lease import LEASE_MS

Q = queries("afl.runtime", "sql")
SCHEMA = Schema("afl.runtime", "sql", component="runtime")


class Tables:
    """A group of tables in a database."""

    database: Database
    lease_ms: int = LEASE_MS

    @property
    def owner_id(self) -> str:
        """The name under which this process holds runs and tasks."""
        return self.database.presence.id
