"""The states of a run: queued, claimed by an agent under an epoch, started, ended. Each function is one transition.

    WAITING -> PENDING (queued) -> PENDING (held) -> RUNNING -> COMPLETED | FAILED | CANCELED | CRASHED

Taking a run from its holder increments the epoch, so that later reports of the holder miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.fleet.errors import RequestRefused
from afl.fleet.messages import Status
from afl.fleet.principal.store import Change, Q
from afl.kernel.codec import encode
from afl.kernel.database import Row


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to create; `workflow` is its JSON, stored with the run.

    `needs` names what agents of the reference do not support; they are not assigned a run that needs anything.
    """

    run_id: str
    workflow_id: str
    workflow_name: str
    workflow: str
    requeues: int
    params: Mapping[str, Any]
    origin: str
    needs: str = ""


def enqueue(change: Change, new_run: NewRun, *, behind: bool = False) -> bool:
    """Whether the run is new: the same id is the same run. `behind` holds it until the open runs have ended."""
    waits = behind and has_open_run(change, new_run.workflow_id)
    status = Status.WAITING if waits else Status.PENDING
    made = change.tx.run(
        Q.insert_run,
        run_id=new_run.run_id,
        workflow_id=new_run.workflow_id,
        workflow_name=new_run.workflow_name,
        workflow=new_run.workflow,
        params=encode(dict(new_run.params), what=f"parameters of workflow {new_run.workflow_id!r}"),
        instance_id=new_run.run_id,
        origin=new_run.origin,
        status=status.value,
        requeues=new_run.requeues,
        needs=new_run.needs,
        created_at=change.at,
    )
    run = get_run(change, new_run.run_id)
    if not made:
        if run["workflow_id"] != new_run.workflow_id:
            raise RequestRefused(f"run {new_run.run_id} exists, and is of workflow {run['workflow_id']}")
        return False
    note(change, run, status)
    change.notifications.queued += status is Status.PENDING
    return True


def has_open_run(change: Change, workflow_id: str) -> bool:
    """The open run that is found is locked: it cannot end before this transition does."""
    return change.tx.one(Q.has_open_run, workflow_id=workflow_id) is not None


def get_run(change: Change, run_id: str) -> Row:
    """The run, locked until the transition ends."""
    run = change.tx.one(Q.lock_run, run_id=run_id)
    if run is None:
        raise RequestRefused(f"No run exists with id {run_id}")
    return run


def claim(
    change: Change, agent_id: str, incarnation: str, *, held: Sequence[str] | None = None, old: bool = False
) -> Row | None:
    """Claim the oldest queued run under a new epoch; None when there is none. `old`: for an agent of the reference.

    A run that was assigned to this incarnation, and whose answer was lost, comes first. It gets a new epoch too: the
    request whose answer was lost may still release what it had claimed.
    """
    run = None
    if held is not None:
        run = change.tx.one(
            Q.claim_again, incarnation=incarnation, held=list(held), lease_until=change.lease_until
        )
    run = run or change.tx.one(
        Q.claim, agent_id=agent_id, incarnation=incarnation, old=int(old), lease_until=change.lease_until
    )
    if run is not None:
        change.notify_run(run["run_id"])
    return run


def unclaim(change: Change, run_id: str, epoch: int) -> bool:
    """Release a run whose holder never received it."""
    freed = change.tx.run(Q.unclaim, run_id=run_id, epoch=epoch) > 0
    if freed:
        change.notify_run(run_id)
        change.notifications.queued += 1
    return freed


def cancel(change: Change, run_id: str, reason: str) -> Row:
    """End a run that nobody holds; notify the holder of one that is held. An ended run stays as it is."""
    run = get_run(change, run_id)
    if Status(run["status"]).is_final:
        return run
    change.tx.run(Q.ask_cancel, run_id=run_id, reason=reason)
    if not run["incarnation"]:
        finish(change, run, Status.CANCELED)
    change.notify_run(run_id)
    change.notify_agent(run["incarnation"])
    return get_run(change, run_id)


def start(change: Change, run: Row, agent_id: str, incarnation: str, at: int) -> None:
    """The holder started the run, or returned after its lease expired."""
    change.tx.run(
        Q.run_started,
        run_id=run["run_id"],
        epoch=run["epoch"],
        agent_id=agent_id,
        incarnation=incarnation,
        lease_until=change.lease_until,
        at=at,
    )
    change.notify_run(run["run_id"])


def finish(change: Change, run: Row, status: Status, *, at: int | None = None, error: str = "") -> None:
    """End a run, and release the next one that `overlap: queue` holds back."""
    moment = change.at if at is None else at
    change.tx.run(
        Q.end_run,
        run_id=run["run_id"],
        epoch=run["epoch"],
        status=status.value,
        error=error,
        at=moment,
    )
    note(change, run, status, at=moment)
    change.notify_run(run["run_id"])
    following = change.tx.one(Q.release_waiting, workflow_id=run["workflow_id"])
    if following is not None:
        note(change, following, Status.PENDING)
        change.notify_run(following["run_id"])
        change.notifications.queued += 1


def requeue(change: Change, run: Row, requeued: int) -> None:
    """Queue a run again at its old position. `requeued` counts how often that followed a start."""
    change.tx.run(Q.requeue, run_id=run["run_id"], epoch=run["epoch"], requeued=requeued)
    change.tx.run(Q.clear_tasks, run_id=run["run_id"])
    note(change, run, Status.PENDING)
    change.notify_run(run["run_id"])
    change.notifications.queued += 1


def note(
    change: Change,
    run: Row,
    status: Status,
    *,
    at: int | None = None,
    epoch: int | None = None,
    instance_id: str | None = None,
    late: bool = False,
) -> None:
    """Add a row to the history; a late one does not become the latest."""
    row = change.tx.one(
        Q.add_run_status,
        workflow_id=run["workflow_id"],
        workflow_instance_id=run["instance_id"] if instance_id is None else instance_id,
        status=status.value,
        timestamp_ms=change.at if at is None else at,
        run_id=run["run_id"],
        agent_id=run["agent_id"],
        epoch=run["epoch"] if epoch is None else epoch,
        late=int(late),
    )
    assert row is not None
    if not late:
        change.tx.run(Q.set_latest, workflow_id=run["workflow_id"], position=row["position"])
