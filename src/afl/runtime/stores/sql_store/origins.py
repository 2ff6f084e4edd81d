"""Runs in SQL that were started again, or forked, from others."""

from __future__ import annotations

from afl.runtime.entities import RunDefinition
from afl.runtime.stores.sql_store.rows import run_from
from afl.runtime.stores.sql_store.tables import Q, Tables


class OriginTables(Tables):
    """The OriginStore protocol."""

    def get_runs_from(self, origin: str, limit: int = 100) -> list[RunDefinition]:
        beyond = f"{origin}0"  # the zero comes after the slash
        rows = self.database.select(Q.get_runs_from, origin=origin, beyond=beyond, limit=limit)
        return [run_from(row) for row in rows]
