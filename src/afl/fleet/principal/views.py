"""Runs, tasks and statuses as the principal answers them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from afl.fleet.messages import RecentStatus, RunDetail, RunView, Status, TaskView
from afl.fleet.principal.store import Q
from afl.fleet.requests import ListRuns
from afl.kernel.codec import decode
from afl.kernel.database import Row, Transaction

_MOST = 1000


WaitReason = Callable[[Row], str]


def _no_reason(row: Row) -> str:
    """For callers that do not know which agents are connected."""
    return ""


def run_view(row: Row, waits: WaitReason = _no_reason) -> RunView:
    own = {"params": decode(row["params"]), "trigger": row["origin"], "attempt": row["requeued"] + 1}
    return msgspec.convert({**row, **own, "waits": waits(row)}, RunView)


def run_detail(tx: Transaction, run_id: str, waits: WaitReason = _no_reason) -> RunDetail | None:
    """None when there is no such run."""
    row = tx.one(Q.get_run, run_id=run_id)
    if row is None:
        return None
    tasks = [msgspec.convert(dict(task), TaskView) for task in tx.all(Q.get_tasks, run_id=run_id)]
    return RunDetail(run=run_view(row, waits), tasks=tasks, workflow=msgspec.Raw(row["workflow"].encode()))


def list_runs(tx: Transaction, request: ListRuns, waits: WaitReason = _no_reason) -> list[RunView]:
    """Newest first."""
    filters = {
        "workflow_id": request.workflow_id,
        "agent_id": request.agent_id,
        "statuses": [status.value for status in request.statuses],
        "any_status": int(not request.statuses),
        "before": request.before,
        "limit": max(1, min(request.limit, _MOST)),
    }
    chosen = Q.list_runs_of_workflow if request.workflow_id else Q.list_runs
    return [run_view(row, waits) for row in tx.all(chosen, **filters)]


def recent_statuses(tx: Transaction) -> list[RecentStatus]:
    """The latest status of each workflow, with the statuses that old peers know."""
    return [
        RecentStatus(
            workflow_id=row["workflow_id"],
            workflow_instance_id=row["workflow_instance_id"],
            status=Status(row["status"]).for_old_peers.value,
            timestamp_ms=row["timestamp_ms"],
        )
        for row in tx.all(Q.recent_statuses)
    ]


def running_by_agent(tx: Transaction) -> dict[str, int]:
    """The number of running workflows by agent."""
    return {row["agent_id"]: row["running"] for row in tx.all(Q.running_by_agent)}
