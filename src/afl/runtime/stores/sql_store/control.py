"""What an operator does to a run, in SQL: pause, unpause, cancel. Whoever holds the run is fenced."""

from __future__ import annotations

from functools import partial

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.database import Transaction
from afl.kernel.notify import Notifications
from afl.runtime.entities import AttemptOutcome, RunnerState, attempt_of
from afl.runtime.persistence.topics import CANCEL_TOPIC, ELSEWHERE_TOPIC, RUNS_TOPIC, run_topic, tasks_topic
from afl.runtime.stores.sql_store.attempts import write_attempts
from afl.runtime.stores.sql_store.concurrency import lock_keys, promote
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.task_rows import task_from
from afl.runtime.types import WorkflowId


class ControlTables(Tables):
    """The ControlStore protocol."""

    def pause_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        return self.notifying(partial(_pause, workflow_id=workflow_id, reason=reason))

    def unpause_run(self, workflow_id: WorkflowId) -> bool:
        return self.notifying(partial(_unpause, workflow_id=workflow_id))

    def cancel_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        return self.notifying(partial(_cancel, workflow_id=workflow_id, reason=reason))


def _pause(tx: Transaction, notifications: Notifications, *, workflow_id: str, reason: str) -> bool:
    row = tx.one(Q.pause_run, workflow_id=workflow_id, reason=reason, updated=wall_ms())
    if row is None:
        return False
    tx.run(Q.update_runner_state, uuid=row["runner_id"], state=row["state"])
    keys = _keys(tx, workflow_id)
    lock_keys(tx, keys)
    tx.run(Q.pause_tasks, workflow_id=workflow_id, updated=wall_ms())
    promote(tx, keys, notifications)
    notifications.add(tx, run_topic(workflow_id))
    return True


def _unpause(tx: Transaction, notifications: Notifications, *, workflow_id: str) -> bool:
    row = tx.one(Q.unpause_run, workflow_id=workflow_id, updated=wall_ms())
    if row is None:
        return False
    tx.run(Q.update_runner_state, uuid=row["runner_id"], state=row["state"])
    lock_keys(tx, _keys(tx, workflow_id))
    for row in tx.all(Q.unpause_tasks, workflow_id=workflow_id, updated=wall_ms()):
        if not row["via"]:
            notifications.add(tx, tasks_topic(row["task_list_name"]))
    promote(tx, _keys(tx, workflow_id), notifications)
    notifications.add(tx, RUNS_TOPIC)
    notifications.add(tx, ELSEWHERE_TOPIC)
    return True


def _cancel(tx: Transaction, notifications: Notifications, *, workflow_id: str, reason: str) -> bool:
    error = codec.encode({"message": reason, "error_type": "Cancelled"})
    changed = {"workflow_id": workflow_id, "error": error, "updated": wall_ms()}
    row = tx.one(Q.cancel_run, reason=reason, **changed)
    if row is None:
        return False
    keys = _keys(tx, workflow_id)
    lock_keys(tx, keys)
    running = [task_from(row) for row in tx.all(Q.running_tasks_of_run, workflow_id=workflow_id)]
    tx.run(Q.cancel_tasks, **changed)
    write_attempts(
        tx,
        notifications,
        [attempt_of(task, AttemptOutcome.CANCELED, ended=wall_ms(), error=reason) for task in running],
    )
    tx.run(Q.delete_marks, workflow_id=workflow_id)
    if row["runner_id"]:
        ended = {"state": RunnerState.CANCELLED, "ended": wall_ms(), "workflow_id": workflow_id}
        tx.run(Q.end_runner, uuid=row["runner_id"], **ended)
    promote(tx, keys, notifications)
    notifications.add(tx, CANCEL_TOPIC)
    notifications.add(tx, run_topic(workflow_id))
    return True


def _keys(tx: Transaction, workflow_id: str) -> list[str]:
    return [row["concurrency_key"] for row in tx.all(Q.open_keys, workflow_id=workflow_id)]
