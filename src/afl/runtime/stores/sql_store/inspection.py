"""Rows that refer to what is not there, in SQL."""

from __future__ import annotations

from afl.kernel.database import Row, Transaction
from afl.kernel.notify import separate_notifier
from afl.runtime.persistence.inspection import OrphanKind, Orphans
from afl.runtime.stores.round_trip import is_received
from afl.runtime.stores.sql_store.servers import LockTables
from afl.runtime.stores.sql_store.tables import Q

_QUERIES = {
    OrphanKind.TASK_RUN: Q.tasks_without_run,
    OrphanKind.TASK_STEP: Q.tasks_without_step,
    OrphanKind.TASK_FLOW: Q.tasks_without_flow,
    OrphanKind.STEP_RUN: Q.steps_without_run,
    OrphanKind.RUN_PROGRAM: Q.runs_without_program,
    OrphanKind.RUN_STEPS: Q.runs_without_steps,
}


class InspectionTables(LockTables):
    """The InspectionStore protocol."""

    def receives_commits(self, timeout: float) -> bool | None:
        with separate_notifier(self.database, self.doorbell) as other:
            return is_received(self, self.notifier, other, timeout)

    def find_orphans(self, examples: int = 3) -> list[Orphans]:
        def look(tx: Transaction) -> dict[OrphanKind, list[Row]]:
            return {kind: tx.all(query, limit=examples) for kind, query in _QUERIES.items()}

        found = self.database.read(look)
        return [
            Orphans(kind, rows[0]["found"], [row["id"] for row in rows])
            for kind, rows in found.items()
            if rows
        ]
