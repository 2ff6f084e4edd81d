"""Agents of the reference: they fetch without a lease, name their runs themselves, and report one status at a time.

A fetch is held for them as if it were leased. The first status of an unknown instance binds it to the oldest fetch of
that agent and workflow; one without a fetch is recorded as a run of its own, so that it is monitored too.
"""

from __future__ import annotations

from afl.fleet.errors import RequestRefused
from afl.fleet.messages import AgentStatus, RecentStatus, Status, TaskRecord, encode_answer
from afl.fleet.principal import logs, runs, views
from afl.fleet.principal.context import Answer, PrincipalContext
from afl.fleet.principal.registry import incarnation_of
from afl.fleet.principal.reports import apply_run, put_task, put_task_status
from afl.fleet.principal.runs import claim, get_run, note
from afl.fleet.principal.store import Change, Q
from afl.fleet.protocol import OK, PONG, server_error, success
from afl.fleet.requests import (
    AgentTaskStatus,
    AgentWorkflowStatus,
    FetchWorkflow,
    GetRecentStatuses,
    GetRegisteredAgents,
    ListWorkflows,
    Ping,
    QueryLogs,
    RegisterAgent,
    RunTask,
)
from afl.fleet.workflow import rendered_workflow
from afl.fleet.workflow_json import decode_workflow, to_reference_data
from afl.kernel.codec import decode, encode
from afl.kernel.database import Row
from afl.kernel.errors import StoreError
from afl.kernel.ids import sortable_id


def fetch(change: Change, agent_id: str) -> Row | None:
    """Claim the oldest queued run that it can run; released when no status arrives within a heartbeat timeout."""
    return claim(change, agent_id, incarnation_of(agent_id), old=True)


def workflow_of(run: Row) -> str:
    """The JSON of a run's workflow for an agent that knows neither parameters nor our keys."""
    workflow = rendered_workflow(decode_workflow(run["workflow"]), decode(run["params"]))
    return encode(to_reference_data(workflow), what=f"workflow {workflow.id!r}")


def heartbeat(change: Change, agent_id: str) -> int:
    """Renew its runs; their number."""
    return change.tx.run(Q.renew_old, incarnation=incarnation_of(agent_id), lease_until=change.lease_until)


def report_workflow(change: Change, request: AgentWorkflowStatus) -> None:
    """AGENTWORKFLOWSTATUS."""
    ids = {"instance_id": request.workflow_instance_id, "agent_id": request.agent_id}
    run = change.tx.one(Q.run_of_instance, **ids)
    past = change.tx.one(Q.past_run_of_instance, **ids) if run is None else None
    if past is not None:  # it was queued again and no longer belongs to this agent
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
    """Bind the oldest fetch of that agent and workflow that has no instance yet."""
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
        run_id = sortable_id()  # a run of another agent has that id
        change.tx.run(Q.adopt_run, run_id=run_id, **values)
    return get_run(change, run_id)


async def ping(context: PrincipalContext, request: Ping) -> Answer:
    return Answer(PONG)


async def list_workflows(context: PrincipalContext, request: ListWorkflows) -> Answer:
    await context.catalog.look()
    return Answer(success(context.catalog.listing))


async def run_task(context: PrincipalContext, request: RunTask) -> Answer:
    workflow = await context.catalog.find(request.workflow_id)
    if workflow is None:
        raise RequestRefused(f"No workflow exists with id {request.workflow_id}")
    new_run = context.catalog.new_run(workflow, "RUNTASK")
    await context.enqueue(new_run)
    return Answer(OK)


async def register_agent(context: PrincipalContext, request: RegisterAgent) -> Answer:
    """The heartbeat of an old agent."""
    context.registry.seen(request.agent_id, incarnation_of(request.agent_id))
    await context.change(lambda change: heartbeat(change, request.agent_id))
    return Answer(OK)


async def fetch_workflow(context: PrincipalContext, request: FetchWorkflow) -> Answer:
    run = await context.change(lambda change: fetch(change, request.agent_id))
    if run is None:
        return Answer(OK)
    run_id, epoch = run["run_id"], run["epoch"]
    return Answer(
        success(workflow_of(run)),
        lambda: context.change(lambda change: runs.unclaim(change, run_id, epoch)),
    )


async def workflow_status(context: PrincipalContext, request: AgentWorkflowStatus) -> Answer:
    try:
        await context.change(lambda change: report_workflow(change, request))
    except StoreError as error:
        return Answer(server_error(f"Failed to update workflow statuses: {error}"))
    return Answer(OK)


async def task_status(context: PrincipalContext, request: AgentTaskStatus) -> Answer:
    try:
        await context.change(lambda change: report_task(change, request))
    except StoreError as error:
        return Answer(server_error(f"Failed to update task statuses: {error}"))
    return Answer(OK)


async def query_logs(context: PrincipalContext, request: QueryLogs) -> Answer:
    now = context.store.wall()
    lines = await context.store.read_async(lambda tx: encode_answer(logs.query(tx, request, now)))
    return Answer(success(lines))


async def recent_statuses(context: PrincipalContext, request: GetRecentStatuses) -> list[RecentStatus]:
    return await context.store.read_async(views.recent_statuses)


async def registered_agents(context: PrincipalContext, request: GetRegisteredAgents) -> list[AgentStatus]:
    running = await context.store.read_async(views.running_by_agent)
    return [
        AgentStatus(
            agent_id=agent.agent_id,
            last_ping_timestamp=agent.last_seen * 1000,
            running_tasks=running.get(agent.agent_id, 0),
        )
        for agent in context.registry.agents
    ]
