"""The histories of runs in SQL."""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.runtime.persistence.history import (
    KEPT_COMMITS,
    TRIM_EVERY,
    HistoryEvent,
    history_from,
)
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.types import WorkflowId


class HistoryTables(Tables):
    """The HistoryStore protocol."""

    def get_history(
        self, workflow_id: WorkflowId, after: int = 0, limit: int = 1000
    ) -> list[tuple[int, list[HistoryEvent]]]:
        rows = self.database.select(Q.get_history, workflow_id=workflow_id, after=after, limit=limit)
        return [(row["number"], history_from(row["events"])) for row in rows]


def append_history(tx: Transaction, workflow_id: str, events: str) -> None:
    """Append what happened, as part of a transaction that has written the run's row, and so is alone with it."""
    row = tx.one(Q.append_history, workflow_id=workflow_id, events=events)
    if row is not None and row["number"] % TRIM_EVERY == 0:
        tx.run(Q.trim_history, workflow_id=workflow_id, before=row["number"] - KEPT_COMMITS)
