"""What agents say of their runs and tasks, and the heartbeat that keeps their holds.

A report counts when it carries the run's epoch. CRASHED, which the principal decided alone, gives way to any such
report; another end stays. What does not count is kept in the history as late.
"""

from __future__ import annotations

from collections.abc import Sequence

from afl.fleet.answers import Commands
from afl.fleet.log_frame import cleaned
from afl.fleet.principal.crashes import crash
from afl.fleet.principal.runs import finish, note, start
from afl.fleet.principal.store import Change, Q
from afl.fleet.principal.tasks import put_task, put_task_status
from afl.fleet.records import RunRecord, TaskRecord
from afl.fleet.statuses import Status
from afl.kernel.bounds import cut
from afl.kernel.database import Row, Transaction


def report_run(change: Change, record: RunRecord, agent_id: str, incarnation: str) -> None:
    """A status of a run, as its holder saw it."""
    run = change.tx.one(Q.lock_run, run_id=record.run_id)
    if run is None:
        _note_stranger(change, record, agent_id)
    elif record.epoch != run["epoch"] or _is_settled(run):
        note(change, run, record.status, at=record.at, epoch=record.epoch, late=True)
    else:
        apply_run(
            change, run, record.status, agent_id, incarnation, at=record.at, error=cut(cleaned(record.error))
        )


def apply_run(
    change: Change, run: Row, status: Status, agent_id: str, incarnation: str, *, at: int, error: str = ""
) -> None:
    """A status that counts."""
    if status is Status.CRASHED:
        if run["status"] != Status.CRASHED:  # else it was counted when it was noticed
            crash(change, run, error)
        return
    if status.is_final:
        finish(change, run, status, at=at, error=error)
        return
    if status is Status.RUNNING:
        if run["status"] == Status.CRASHED:
            change.tx.run(Q.revive_tasks, run_id=run["run_id"], epoch=run["epoch"])
        start(change, run, agent_id, incarnation, at)
    note(change, run, status, at=at)


def report_task(change: Change, record: TaskRecord) -> None:
    """A status of a task of a run."""
    run = change.tx.one(Q.lock_run, run_id=record.run_id)
    counts = run is not None and run["epoch"] == record.epoch
    put_task_status(change, record, run["instance_id"] if run is not None else record.run_id, late=not counts)
    if counts:
        put_task(change, record)


def heartbeat(
    change: Change, agent_id: str, incarnation: str, running: Sequence[tuple[str, int]]
) -> Commands:
    """Renew what the agent works on, and what it shall do about it."""
    for run_id, epoch in running:
        run = change.tx.one(Q.lock_run, run_id=run_id)
        if run is None or run["epoch"] != epoch:
            continue
        if run["status"] == Status.CRASHED:
            apply_run(change, run, Status.RUNNING, agent_id, incarnation, at=change.at)
        elif run["incarnation"]:
            change.tx.run(Q.renew, run_id=run_id, epoch=epoch, lease_until=change.lease_until)
    return commands(change.tx, running)


def commands(tx: Transaction, running: Sequence[tuple[str, int]]) -> Commands:
    """What an agent shall do about the runs in its hands; looking at it renews nothing."""
    found = Commands(cancel=[], lost=[])
    for run_id, epoch in running:
        run = tx.one(Q.get_run, run_id=run_id)
        if run is None or run["epoch"] != epoch:
            found.lost.append(run_id)
        elif _is_cancelled(run):
            found.cancel.append(run_id)
    return found


def _is_settled(run: Row) -> bool:
    """Whether the run has an end that its holder told, or that an operator made."""
    return Status(run["status"]).is_final and run["status"] != Status.CRASHED


def _is_cancelled(run: Row) -> bool:
    asked = run["cancel_reason"] is not None and not Status(run["status"]).is_final
    return asked or run["status"] == Status.CANCELLED


def _note_stranger(change: Change, record: RunRecord, agent_id: str) -> None:
    """A run this store never had: its status is kept, since somebody may look for it."""
    change.tx.one(
        Q.add_run_status,
        workflow_id="",
        workflow_instance_id=record.run_id,
        status=record.status.value,
        timestamp_ms=record.at,
        run_id=record.run_id,
        agent_id=agent_id,
        epoch=record.epoch,
        late=1,
    )
