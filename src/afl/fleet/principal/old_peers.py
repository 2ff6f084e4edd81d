"""Agents of the reference: they fetch without a lease, name their runs themselves, and tell one status at a time.

A fetch is held for them as if it were leased. The first status of an instance that nobody knows binds it to the oldest
fetch of that agent and workflow; one without a fetch is taken in as a run of its own, so that it is watched too.
"""

from __future__ import annotations

from afl.fleet.parameters import rendered_workflow
from afl.fleet.principal.reports import apply_run
from afl.fleet.principal.runs import claim, get_run, note
from afl.fleet.principal.store import Change, Q
from afl.fleet.principal.tasks import put_task, put_task_status
from afl.fleet.records import TaskRecord
from afl.fleet.requests import AgentTaskStatus, AgentWorkflowStatus
from afl.fleet.statuses import Status
from afl.fleet.workflow_wire import decode_workflow, to_reference_wire
from afl.kernel.codec import decode, encode
from afl.kernel.database import Row
from afl.kernel.ids import sortable_id

_OLD = "old:"


def incarnation_of(agent_id: str) -> str:
    """Old agents have no incarnation; one of that name is the same as long as it is heard."""
    return f"{_OLD}{agent_id}"


def is_old(incarnation: str) -> bool:
    """Whether that is an agent of the reference."""
    return incarnation.startswith(_OLD)


def fetch(change: Change, agent_id: str) -> Row | None:
    """The oldest queued run that it can run. It goes back if no status of it comes within a heartbeat timeout."""
    return claim(change, agent_id, incarnation_of(agent_id), old=True)


def workflow_of(run: Row) -> str:
    """The JSON of a run's workflow for an agent that knows neither parameters nor our keys."""
    workflow = rendered_workflow(decode_workflow(run["workflow"]), decode(run["params"]))
    return encode(to_reference_wire(workflow), what=f"workflow {workflow.id!r}")


def heartbeat(change: Change, agent_id: str) -> int:
    """How many running workflows were renewed."""
    return change.tx.run(Q.renew_old, incarnation=incarnation_of(agent_id), lease_until=change.lease_until)


def report_workflow(change: Change, request: AgentWorkflowStatus) -> None:
    """AGENTWORKFLOWSTATUS."""
    ids = {"instance_id": request.workflow_instance_id, "agent_id": request.agent_id}
    run = change.tx.one(Q.run_of_instance, **ids)
    past = change.tx.one(Q.past_run_of_instance, **ids) if run is None else None
    if past is not None:  # queued again since, and so no longer this agent's
        note(change, past, request.status, instance_id=request.workflow_instance_id, late=True)
        return
    run = run or _bound(change, request) or _adopted(change, request)
    if Status(run["status"]).is_final and run["status"] != Status.CRASHED:
        note(change, run, request.status, late=True)
        return
    incarnation = incarnation_of(request.agent_id)
    apply_run(change, run, request.status, request.agent_id, incarnation, at=change.at)


def report_task(change: Change, request: AgentTaskStatus) -> None:
    """AGENTTASKSTATUS."""
    run = change.tx.one(
        Q.run_of_instance, instance_id=request.workflow_instance_id, agent_id=request.agent_id
    )
    record = TaskRecord(
        seq=0,
        run_id="" if run is None else run["run_id"],
        epoch=0 if run is None else run["epoch"],
        task_id=request.task_id,
        task_instance_id=request.task_instance_id,
        status=request.status,
        at=change.at,
    )
    put_task_status(change, record, request.workflow_instance_id, late=False)
    if run is not None:
        put_task(change, record)


def _bound(change: Change, request: AgentWorkflowStatus) -> Row | None:
    """The oldest fetch of that agent and workflow that has no instance yet: this is it."""
    fetched = change.tx.one(
        Q.oldest_old_fetch, incarnation=incarnation_of(request.agent_id), workflow_id=request.workflow_id
    )
    if fetched is None:
        return None
    change.tx.run(Q.bind_instance, run_id=fetched["run_id"], instance_id=request.workflow_instance_id)
    return get_run(change, fetched["run_id"])


def _adopted(change: Change, request: AgentWorkflowStatus) -> Row:
    values = {
        "workflow_id": request.workflow_id,
        "instance_id": request.workflow_instance_id,
        "agent_id": request.agent_id,
        "incarnation": incarnation_of(request.agent_id),
        "lease_until": change.lease_until,
        "at": change.at,
    }
    run_id = request.workflow_instance_id
    if not change.tx.run(Q.adopt_run, run_id=run_id, **values):
        run_id = sortable_id()  # a run of another agent has that name
        change.tx.run(Q.adopt_run, run_id=run_id, **values)
    return get_run(change, run_id)
