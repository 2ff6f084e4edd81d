"""The life of a run: queued, handed to an agent under an epoch, started, ended. Each function is one transition.

    WAITING -> PENDING (queued) -> PENDING (held) -> RUNNING -> COMPLETED | FAILED | CANCELLED | CRASHED

Whoever takes a run away from its holder counts the epoch up, so that the holder's later reports miss.
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
class Order:
    """A run to be made; `workflow` is its wire JSON, kept with the run whatever becomes of the file.

    `needs` says what agents of the reference do not know; they are not given a run that needs anything.
    """

    run_id: str
    workflow_id: str
    workflow_name: str
    workflow: str
    requeues: int
    params: Mapping[str, Any]
    origin: str
    needs: str = ""


def enqueue(change: Change, order: Order, *, behind: bool = False) -> bool:
    """Whether the run is new: the same id again is the same run. `behind` holds it until the open ones ended."""
    waits = behind and has_open_run(change, order.workflow_id)
    status = Status.WAITING if waits else Status.PENDING
    made = change.tx.run(
        Q.insert_run,
        run_id=order.run_id,
        workflow_id=order.workflow_id,
        workflow_name=order.workflow_name,
        workflow=order.workflow,
        params=encode(dict(order.params), what=f"parameters of workflow {order.workflow_id!r}"),
        instance_id=order.run_id,
        origin=order.origin,
        status=status.value,
        requeues=order.requeues,
        needs=order.needs,
        created_at=change.at,
    )
    run = get_run(change, order.run_id)
    if not made:
        if run["workflow_id"] != order.workflow_id:
            raise RequestRefused(f"run {order.run_id} exists, and is of workflow {run['workflow_id']}")
        return False
    note(change, run, status)
    change.notifications.queued += status is Status.PENDING
    return True


def has_open_run(change: Change, workflow_id: str) -> bool:
    """One that is found cannot end before this transition has: whoever waits behind it will be seen by its end."""
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
    """Take the oldest queued run under a new epoch; None when there is none. `old`: for an agent of the reference.

    A run that this incarnation was given and does not know of, since the answer was lost, comes first. It too gets a
    new epoch: the request whose answer was lost may yet put back what it had claimed.
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
    """Put a run back whose holder never heard of it."""
    freed = change.tx.run(Q.unclaim, run_id=run_id, epoch=epoch) > 0
    if freed:
        change.notify_run(run_id)
        change.notifications.queued += 1
    return freed


def cancel(change: Change, run_id: str, reason: str) -> Row:
    """End a run that nobody holds; tell the holder of one that is held. An ended run stays as it is."""
    run = get_run(change, run_id)
    if Status(run["status"]).is_final:
        return run
    change.tx.run(Q.ask_cancel, run_id=run_id, reason=reason)
    if not run["incarnation"]:
        finish(change, run, Status.CANCELLED)
    change.notify_run(run_id)
    change.notify_agent(run["incarnation"])
    return get_run(change, run_id)


def start(change: Change, run: Row, agent_id: str, incarnation: str, at: int) -> None:
    """The holder began, or came back after it was given up."""
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
    """End a run, and let the next one go that `overlap: queue` held back."""
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
    """Queue a run again, in its old place: its holder is gone. `requeued` counts how often that followed a start."""
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
    """Add a row to the history; one that came too late does not become the latest."""
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
