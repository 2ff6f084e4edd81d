"""What the SQL stores tell those who watch them, keep figures of them, or look after them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from afl.kernel.database import Row, Transaction
from afl.kernel.notify import separate_notifier
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence.inspection import OrphanKind, Orphans, RunFigure, TaskCount, TaskLine
from afl.runtime.step import StepLine
from afl.runtime.stores.round_trip import is_received
from afl.runtime.stores.sql_store.servers import LockTables
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.task_rows import task_from
from afl.runtime.types import StepId, WorkflowId

_NEWEST = 100  # about what a person sees of a list at a time


class PulseTables(Tables):
    """The PulseStore protocol."""

    def run_pulse(self, workflow_id: WorkflowId) -> tuple[Any, ...] | None:
        rows = self.database.select(Q.run_pulse, workflow_id=workflow_id)
        return _values(rows[0]) if rows else None

    def runs_pulse(self) -> tuple[Any, ...]:
        def look(tx: Transaction) -> tuple[Any, ...]:
            newest = tx.all(Q.newest_runs_pulse, limit=_NEWEST)
            return tuple(_values(row) for row in (*newest, *tx.all(Q.open_runs_pulse)))

        return self.database.read(look)

    def tasks_pulse(self) -> tuple[Any, ...]:
        return _values(self.database.select(Q.tasks_pulse)[0])

    def log_end(self, runner_id: str) -> int:
        return int(self.database.select(Q.log_end, runner_id=runner_id)[0]["found"])

    def count_open_runs(self) -> int:
        return int(self.database.select(Q.count_open_runs)[0]["found"])

    def get_step_lines(self, workflow_id: WorkflowId, below: StepId | None = None) -> list[StepLine]:
        if below is None:
            rows = self.database.select(Q.step_lines, workflow_id=workflow_id)
        else:
            rows = self.database.select(Q.step_lines_below, first=f"{below}/", beyond=f"{below}0")
        return [StepLine(*each) for each in _all_values(rows)]

    def get_task_lines(self, workflow_id: WorkflowId) -> list[TaskLine]:
        rows = self.database.select(Q.task_lines, workflow_id=workflow_id)
        return [TaskLine(*each) for each in _all_values(rows)]

    def get_running_steps(self, workflow_id: WorkflowId) -> set[StepId]:
        rows = self.database.select(Q.running_steps, workflow_id=workflow_id)
        return {StepId(row["step_id"]) for row in rows}

    def get_tasks_by_step(self, step_id: StepId) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.get_tasks_by_step, step_id=step_id)]


def _values(row: Any) -> tuple[Any, ...]:
    return next(iter(_all_values([row])))


def _all_values(rows: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """The columns of each row: one of PostgreSQL is a dict, one of SQLite yields its values."""
    return (tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows)


_COUNTED = ("task_list", "name", "state", "hold", "via", "count", "oldest")


class CensusTables(Tables):
    """The CensusStore protocol."""

    def count_tasks(self) -> list[TaskCount]:
        return [
            TaskCount(**{name: row[name] for name in _COUNTED}, delayed=bool(row["delayed"]))
            for row in self.database.select(Q.count_tasks)
        ]

    def count_runs(self) -> dict[str, int]:
        return {row["state"]: row["count"] for row in self.database.select(Q.count_runs)}

    def get_run_figures(self, since: int, limit: int) -> list[RunFigure]:
        rows = self.database.select(Q.run_figures, since=since, limit=limit)
        return [RunFigure(row["workflow_name"], row["state"], row["created"], row["ended"]) for row in rows]


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
