"""The task queue in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.database import Transaction
from afl.kernel.presence import Life
from afl.runtime.changes import Outcome
from afl.runtime.entities import TaskDefinition
from afl.runtime.sql_store.rows import error_data, event_row, extra_text, task_from, task_params, values_text
from afl.runtime.sql_store.tables import Q, Tables
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId


class TaskTables(Tables):
    """The TaskStore protocol."""

    def get_task(self, uuid: str) -> TaskDefinition | None:
        rows = self.database.select(Q.get_task, uuid=uuid)
        return task_from(rows[0]) if rows else None

    def get_task_by_step(self, step_id: StepId) -> TaskDefinition | None:
        rows = self.database.select(Q.get_task_by_step, step_id=step_id)
        return task_from(rows[0]) if rows else None

    def get_pending_tasks(self, task_list: str) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.get_pending_tasks, task_list=task_list)]

    def get_tasks_by_workflow(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        return [
            task_from(row) for row in self.database.select(Q.get_tasks_by_workflow, workflow_id=workflow_id)
        ]

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.get_all_tasks, limit=limit)]

    def save_task(self, task: TaskDefinition) -> None:
        params = task_params(task)
        self.database.write(lambda tx: tx.run(Q.upsert_task, **params))

    def claim_task(
        self, task_names: list[str], task_list: str = "default", *, owner: str = "", lease_ms: int = 0
    ) -> TaskDefinition | None:
        claimed = self.claim_tasks(task_names, task_list, limit=1, owner=owner, lease_ms=lease_ms)
        return claimed[0] if claimed else None

    def claim_tasks(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        limit: int,
        owner: str = "",
        lease_ms: int = 0,
        workflow_id: str | None = None,
    ) -> list[TaskDefinition]:
        if not task_names or limit < 1:
            return []
        rows = self.database.atomic(
            Q.claim_tasks,
            owner=owner or self.owner_id,
            lease_ms=lease_ms,
            updated=wall_ms(),
            task_list=task_list,
            names=[name for name in task_names if "." in name],
            short_names=[name for name in task_names if "." not in name],
            limit=limit,
            workflow_id=workflow_id,
        )
        ordered = sorted(rows, key=lambda row: (-row["priority"], row["seq"]))
        return [task_from(row) for row in ordered]

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        now = wall_ms()
        rows = [{"uuid": t.uuid, "owner": t.owner, "epoch": t.epoch, "started": now} for t in tasks]
        if rows:
            self.database.write(lambda tx: tx.many(Q.start_task, rows))

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        return self.database.write(lambda tx: [_finish(tx, outcome) for outcome in outcomes])

    def renew(self, owner: str, lease_ms: int) -> None:
        def extend(tx: Transaction) -> None:
            tx.run(Q.renew_tasks, owner=owner, lease_ms=lease_ms)
            tx.run(Q.renew_runs, owner=owner, lease_ms=lease_ms)

        self.database.write(extend)

    def release_tasks(self, owner: str, *, died: bool) -> int:
        return self.database.write(
            lambda tx: tx.run(Q.release_tasks, owner=owner, deaths=int(died), updated=wall_ms())
        )

    def reclaim(self) -> int:
        owners = [row["owner"] for row in self.database.select(Q.task_owners)]
        dead = [owner for owner in owners if self.database.presence.proof(owner) is Life.DEAD]
        freed = sum(self.release_tasks(owner, died=True) for owner in dead)
        if len(owners) > len(dead):
            freed += self.database.write(lambda tx: tx.run(Q.release_expired_tasks, updated=wall_ms()))
        return freed


def _finish(tx: Transaction, outcome: Outcome) -> bool:
    """One outcome. Everything that can refuse it is looked at before anything is written."""
    step, task, mark = outcome.step, outcome.task, outcome.mark
    stored = tx.one(Q.lock_step, id=step.id)
    if stored is None or stored["state"] != StepState.EVENT_TRANSMIT or tx.one(Q.get_event, id=mark.id):
        return False
    if task is not None and not close_task(tx, task_params(task)):
        return False
    failure = error_data(step.transition.error)
    tx.run(
        Q.finish_step,
        id=step.id,
        state=step.state,
        returns=values_text(step.attributes.returns, f"the result of step {step.id}"),
        error=None if failure is None else codec.encode(failure),
        extra=extra_text(step),
        ended=step.ended,
    )
    tx.many(Q.insert_mark, [event_row(mark)])
    return True


def close_task(tx: Transaction, task: Mapping[str, Any]) -> bool:
    """Give a task its last state; False if it has an owner that no longer holds it."""
    closing = {name: task[name] for name in ("uuid", "state", "error", "result", "updated")}
    if not task["owner"]:
        tx.run(Q.close_task, **closing)
        return True
    return bool(tx.run(Q.close_held_task, **closing, owner=task["owner"], epoch=task["epoch"]))
