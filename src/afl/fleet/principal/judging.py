"""What becomes of runs whose agent fell silent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from afl.fleet.principal.crashes import crash
from afl.fleet.principal.runs import finish, requeue
from afl.fleet.principal.store import Change, Q
from afl.fleet.statuses import Status
from afl.kernel.database import Row

LIMIT = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided of one run."""

    run_id: str
    agent_id: str
    status: Status  # PENDING: it is queued again
    crashed: bool


def judge(change: Change, limit: int = LIMIT) -> list[Verdict]:
    """Decide every run whose lease has ended; call it again while it returns `limit`."""
    return judge_runs(change, expired(change, limit))


def expired(change: Change, limit: int = LIMIT) -> list[str]:
    """The runs whose lease has ended."""
    return [run["run_id"] for run in change.tx.all(Q.expired, moment=change.moment, limit=limit)]


def judge_runs(change: Change, run_ids: Iterable[str]) -> list[Verdict]:
    """Decide those of the runs whose lease has ended."""
    found = [change.tx.one(Q.lock_run, run_id=run_id) for run_id in run_ids]
    return [_judge(change, run) for run in found if run is not None and _is_expired(change, run)]


def spare_all(change: Change) -> None:
    """A principal that starts heard nobody while it was away: every holder gets a full lease."""
    change.tx.run(Q.spare_all, lease_until=change.lease_until)


def _is_expired(change: Change, run: Row) -> bool:
    return bool(run["incarnation"]) and run["lease_until"] < change.moment


def _judge(change: Change, run: Row) -> Verdict:
    error = f"agent {run['agent_id']} was lost"
    if run["status"] == Status.RUNNING:
        return Verdict(run["run_id"], run["agent_id"], crash(change, run, error), crashed=True)
    # It was never started, so to hand it to somebody else is no second attempt.
    if run["cancel_reason"] is not None:
        finish(change, run, Status.CANCELLED, error=error)
        return Verdict(run["run_id"], run["agent_id"], Status.CANCELLED, crashed=False)
    requeue(change, run, run["requeued"])
    return Verdict(run["run_id"], run["agent_id"], Status.PENDING, crashed=False)
