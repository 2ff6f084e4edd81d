"""A run whose agent was lost, or had to let go of it: queued again if its workflow says so, else CRASHED."""

from __future__ import annotations

from afl.fleet.principal.runs import finish, note, requeue
from afl.fleet.principal.store import Change, Q
from afl.fleet.principal.tasks import put_task_status
from afl.fleet.records import TaskRecord
from afl.fleet.statuses import Status
from afl.kernel.database import Row


def crash(change: Change, run: Row, error: str) -> Status:
    """What the run is now; PENDING when it is queued again. Nobody asks for a cancelled run again."""
    _crash_tasks(change, run)
    if run["cancel_reason"] is not None:
        finish(change, run, Status.CANCELLED, error=error)
        return Status.CANCELLED
    if run["requeued"] < run["requeues"]:
        note(change, run, Status.CRASHED)
        requeue(change, run, run["requeued"] + 1)
        return Status.PENDING
    finish(change, run, Status.CRASHED, error=error)
    return Status.CRASHED


def _crash_tasks(change: Change, run: Row) -> None:
    for task in change.tx.all(Q.crash_tasks, run_id=run["run_id"], at=change.at):
        record = TaskRecord(
            seq=0,
            run_id=run["run_id"],
            epoch=run["epoch"],
            task_id=task["task_id"],
            task_instance_id=task["task_instance_id"],
            status=Status.CRASHED,
            at=change.at,
        )
        put_task_status(change, record, run["instance_id"], late=False)
