"""Tasks of a run: as they stand now, and the history of how they came there."""

from __future__ import annotations

from afl.fleet.log_frame import cleaned
from afl.fleet.principal.store import Change, Q
from afl.fleet.records import TaskRecord
from afl.fleet.statuses import Status
from afl.kernel.bounds import cut


def put_task(change: Change, record: TaskRecord) -> None:
    """The task as it stands now."""
    final = record.status.is_final
    change.tx.run(
        Q.put_task,
        run_id=record.run_id,
        task_id=record.task_id,
        task_instance_id=record.task_instance_id,
        epoch=record.epoch,
        status=record.status.value,
        attempt=record.attempt,
        exit_code=record.exit_code,
        error=cut(cleaned(record.error)),
        started_at=record.at if record.status is Status.RUNNING else None,
        ended_at=record.at if final else None,
    )
    change.tx.run(Q.touch_run, run_id=record.run_id)
    change.notify_run(record.run_id)


def put_task_status(change: Change, record: TaskRecord, instance_id: str, *, late: bool) -> None:
    """A row of the history."""
    change.tx.run(
        Q.add_task_status,
        task_id=record.task_id,
        task_instance_id=record.task_instance_id,
        workflow_instance_id=instance_id,
        status=record.status.value,
        timestamp_ms=record.at,
        run_id=record.run_id,
        epoch=record.epoch,
        exit_code=record.exit_code,
        late=int(late),
    )
