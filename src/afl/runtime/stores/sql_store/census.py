"""Figures in SQL."""

from __future__ import annotations

from afl.runtime.persistence.pulses import TaskCount
from afl.runtime.stores.sql_store.tables import Q, Tables


class CensusTables(Tables):
    """The CensusStore protocol."""

    def count_tasks(self) -> list[TaskCount]:
        return [
            TaskCount(*(row[name] for name in TaskCount.__slots__))
            for row in self.database.select(Q.count_tasks)
        ]

    def count_runs(self) -> dict[str, int]:
        return {row["state"]: row["count"] for row in self.database.select(Q.count_runs)}
