"""Reports of agents on their runs and tasks, and the heartbeat that renews their leases.

A report counts when it carries the epoch of the run. CRASHED, which the principal decided by itself, is replaced by any
such report; another final status stays. A report that does not count is kept in the history as late.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from afl.fleet.messages import Commands, LogRecord, RunRecord, Status, TaskRecord
from afl.fleet.principal.logs import Block, append, block_of_record
from afl.fleet.principal.runs import finish, note, requeue, start
from afl.fleet.principal.store import Change, Q
from afl.fleet.protocol import cleaned
from afl.fleet.requests import Ship
from afl.kernel.bounds import cut
from afl.kernel.database import Row, Transaction


def put_task(change: Change, record: TaskRecord) -> None:
    """Store the current state of a task."""
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
    """Add a row to the history of a task."""
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


def crash(change: Change, run: Row, error: str) -> Status:
    """Queue the run of a lost agent again if its workflow says so, else set it CRASHED; returns the new status."""
    _crash_tasks(change, run)
    if run["cancel_reason"] is not None:
        finish(change, run, Status.CANCELED, error=error)
        return Status.CANCELED
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


def report_run(change: Change, record: RunRecord, agent_id: str, incarnation: str) -> None:
    """A status of a run, reported by its holder."""
    run = change.tx.one(Q.lock_run, run_id=record.run_id)
    if run is None:
        _note_unknown_run(change, record, agent_id)
    elif record.epoch != run["epoch"] or _is_settled(run):
        note(change, run, record.status, at=record.at, epoch=record.epoch, late=True)
    else:
        apply_run(
            change, run, record.status, agent_id, incarnation, at=record.at, error=cut(cleaned(record.error))
        )


def apply_run(
    change: Change, run: Row, status: Status, agent_id: str, incarnation: str, *, at: int, error: str = ""
) -> None:
    """Apply a status that counts."""
    if status is Status.CRASHED:
        if run["status"] != Status.CRASHED:  # else it was applied when the lease expired
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
    """Renew the leases of the agent's runs; the commands for it."""
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
    """The commands for an agent about its runs; renews nothing."""
    found = Commands(cancel=[], lost=[])
    for run_id, epoch in running:
        run = tx.one(Q.get_run, run_id=run_id)
        if run is None or run["epoch"] != epoch:
            found.lost.append(run_id)
        elif _is_canceled(run):
            found.cancel.append(run_id)
    return found


def _is_settled(run: Row) -> bool:
    """Whether the run has a final status that its holder or an operator set."""
    return Status(run["status"]).is_final and run["status"] != Status.CRASHED


def _is_canceled(run: Row) -> bool:
    asked = run["cancel_reason"] is not None and not Status(run["status"]).is_final
    return asked or run["status"] == Status.CANCELED


def _note_unknown_run(change: Change, record: RunRecord, agent_id: str) -> None:
    """A run that this store never had: its status is kept for the history."""
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


_log = logging.getLogger(__name__)


@dataclass(slots=True)
class StoredRecords:
    """What was stored of one SHIP, to be acknowledged and published."""

    acked: int
    blocks: list[Block] = field(default_factory=list)


def store_records(change: Change, ship: Ship) -> StoredRecords:
    """Store new records up to the first gap. Records that the sender no longer has are skipped."""
    stream = {"incarnation": ship.incarnation, "stream": ship.stream}
    row = change.tx.one(Q.open_stream, **stream)
    assert row is not None
    before: int = row["acked"]
    if ship.oldest > before + 1:
        _log.warning(
            "records %d to %d of %s went to another store", before + 1, ship.oldest - 1, ship.incarnation
        )
    stored = StoredRecords(max(before, ship.oldest - 1))
    for record in ship.records:
        if record.seq <= stored.acked:
            continue
        if record.seq != stored.acked + 1:
            break
        stored.acked = record.seq
        if isinstance(record, LogRecord):
            stored.blocks.append(block_of_record(record))
        elif isinstance(record, RunRecord):
            report_run(change, record, ship.agent_id, ship.incarnation)
        else:
            report_task(change, record)
    append(change, stored.blocks)
    if stored.acked != before:
        change.tx.run(Q.set_acked, acked=stored.acked, **stream)
    return stored
