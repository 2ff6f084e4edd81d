"""The verbs of the reference."""

from __future__ import annotations

from afl.fleet.answers import AgentStatus, encode_answer
from afl.fleet.errors import RequestRefused
from afl.fleet.principal import logs, old_peers, runs, views
from afl.fleet.principal.desk import Answer, Desk
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
from afl.kernel.errors import StoreError


async def ping(desk: Desk, request: Ping) -> Answer:
    return Answer(PONG)


async def list_workflows(desk: Desk, request: ListWorkflows) -> Answer:
    await desk.catalogue.look()
    return Answer(success(desk.catalogue.listing))


async def run_task(desk: Desk, request: RunTask) -> Answer:
    workflow = await desk.catalogue.find(request.workflow_id)
    if workflow is None:
        raise RequestRefused(f"No workflow exists with id {request.workflow_id}")
    order = desk.catalogue.order(workflow, "RUNTASK")
    await desk.enqueue(order)
    return Answer(OK)


async def register_agent(desk: Desk, request: RegisterAgent) -> Answer:
    """The heartbeat of an old agent."""
    desk.registry.seen(request.agent_id, old_peers.incarnation_of(request.agent_id))
    await desk.change(lambda change: old_peers.heartbeat(change, request.agent_id))
    return Answer(OK)


async def fetch_workflow(desk: Desk, request: FetchWorkflow) -> Answer:
    run = await desk.change(lambda change: old_peers.fetch(change, request.agent_id))
    if run is None:
        return Answer(OK)
    run_id, epoch = run["run_id"], run["epoch"]
    return Answer(
        success(old_peers.workflow_of(run)),
        lambda: desk.change(lambda change: runs.unclaim(change, run_id, epoch)),
    )


async def workflow_status(desk: Desk, request: AgentWorkflowStatus) -> Answer:
    try:
        await desk.change(lambda change: old_peers.report_workflow(change, request))
    except StoreError as error:
        return Answer(server_error(f"Failed to update workflow statuses: {error}"))
    return Answer(OK)


async def task_status(desk: Desk, request: AgentTaskStatus) -> Answer:
    try:
        await desk.change(lambda change: old_peers.report_task(change, request))
    except StoreError as error:
        return Answer(server_error(f"Failed to update task statuses: {error}"))
    return Answer(OK)


async def query_logs(desk: Desk, request: QueryLogs) -> Answer:
    now = desk.store.wall()
    lines = await desk.store.read_soon(lambda tx: encode_answer(logs.query(tx, request, now)))
    return Answer(success(lines))


async def recent_statuses(desk: Desk, request: GetRecentStatuses) -> Answer:
    return Answer(success(encode_answer(await desk.store.read_soon(views.recent_statuses))))


async def registered_agents(desk: Desk, request: GetRegisteredAgents) -> Answer:
    running = await desk.store.read_soon(views.running_by_agent)
    found = [
        AgentStatus(
            agent_id=agent.agent_id,
            last_ping_timestamp=agent.last_seen * 1000,
            running_tasks=running.get(agent.agent_id, 0),
        )
        for agent in desk.registry.agents
    ]
    return Answer(success(encode_answer(found)))
