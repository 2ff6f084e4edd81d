"""The verbs of clients and of our own agents, and the dispatch from a frame to its verb."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from afl.fleet import requests
from afl.fleet.errors import ProtocolError, RequestRefused
from afl.fleet.messages import (
    Acked,
    AgentView,
    Commands,
    FetchedRun,
    FileProblem,
    LogPage,
    RunDetail,
    RunView,
    Started,
    encode_answer,
)
from afl.fleet.principal import logs, old_peers, reports, runs, views
from afl.fleet.principal.context import Answer, PrincipalContext, seconds
from afl.fleet.principal.store import LOGS, Change, agent_topic, logs_topic, run_topic
from afl.fleet.protocol import OK, client_error, server_error, success
from afl.fleet.request_reader import parse_request
from afl.fleet.requests import (
    CancelRun,
    CheckWorkflows,
    FetchRun,
    GetLogs,
    GetRun,
    Heartbeat,
    ListAgents,
    ListDefinitions,
    ListRuns,
    RunWorkflow,
    Ship,
    WatchRun,
)
from afl.kernel.bounds import cut
from afl.kernel.codec import decode
from afl.kernel.database import Row
from afl.kernel.errors import AgentFlowError, InputError


async def run_workflow(context: PrincipalContext, request: RunWorkflow) -> Started:
    workflow = await context.catalog.find(request.workflow_id)
    if workflow is None:
        raise RequestRefused(f"No workflow exists with id {request.workflow_id}")
    new_run = context.catalog.new_run(workflow, "RUNWORKFLOW", request.params, request.run_id)
    await context.enqueue(new_run)
    return Started(run_id=new_run.run_id)


async def cancel_run(context: PrincipalContext, request: CancelRun) -> RunView:
    run = await context.change(lambda change: runs.cancel(change, request.run_id, request.reason))
    return views.run_view(run, context.waits)


async def get_run(context: PrincipalContext, request: GetRun) -> RunDetail:
    return await _detail(context, request.run_id)


async def list_runs(context: PrincipalContext, request: ListRuns) -> list[RunView]:
    return await context.store.read_async(lambda tx: views.list_runs(tx, request, context.waits))


async def watch_run(context: PrincipalContext, request: WatchRun) -> RunDetail:
    """The run as soon as its version differs; after the timeout, as it is."""

    async def look() -> RunDetail | None:
        detail = await _detail(context, request.run_id)
        return detail if detail.run.version != request.version else None

    detail = await context.long_polls.until(look, [run_topic(request.run_id)], seconds(request.wait_ms))
    return detail or await _detail(context, request.run_id)


async def get_logs(context: PrincipalContext, request: GetLogs) -> LogPage:
    page = LogPage(lines=[], position=request.after, more=False)

    async def look() -> LogPage | None:
        nonlocal page
        page = await context.store.read_async(lambda tx: logs.page(tx, request))
        return page if page.lines else None

    instance = await context.store.read_async(lambda tx: logs.instance_of(tx, request.run_id))
    topic = logs_topic(instance) if instance else LOGS
    await context.long_polls.until(look, [topic], seconds(request.wait_ms))
    return page


async def list_definitions(context: PrincipalContext, request: ListDefinitions) -> Answer:
    await context.catalog.look()
    return Answer(success(context.catalog.definitions))


async def check_workflows(context: PrincipalContext, request: CheckWorkflows) -> list[FileProblem]:
    await context.catalog.refresh()
    return [
        FileProblem(path=_readable(problem.path), line=problem.line, key=problem.key, error=problem.message)
        for problem in context.catalog.problems
    ]


def _readable(path: str) -> str:
    """A file name may contain invalid text, and must not hide the problems of other files."""
    return path.encode("utf-8", "backslashreplace").decode()


async def list_agents(context: PrincipalContext, request: ListAgents) -> list[AgentView]:
    running = await context.store.read_async(views.running_by_agent)
    return [
        AgentView(
            agent_id=agent.agent_id,
            incarnation=agent.incarnation,
            slots=agent.slots,
            running=running.get(agent.agent_id, 0),
            last_seen=agent.last_seen,
            alive=context.is_alive(agent),
        )
        for agent in context.registry.agents
    ]


async def _detail(context: PrincipalContext, run_id: str) -> RunDetail:
    detail = await context.store.read_async(lambda tx: views.run_detail(tx, run_id, context.waits))
    if detail is None:
        raise RequestRefused(f"No run exists with id {run_id}")
    return detail


async def fetch_run(context: PrincipalContext, request: FetchRun) -> Answer:
    """A run, as soon as there is one; it returns to the queue if the agent has disconnected by then."""
    context.registry.seen(request.agent_id, request.incarnation)
    run = await _next_run(context, request)
    if run is None:
        return Answer(OK)
    run_id, epoch = run["run_id"], run["epoch"]
    fetched = FetchedRun(
        run_id=run_id,
        epoch=epoch,
        attempt=run["requeued"] + 1,
        params=decode(run["params"]),
        workflow=msgspec.Raw(run["workflow"].encode()),
    )
    return Answer(
        success(encode_answer(fetched)),
        lambda: context.change(lambda change: runs.unclaim(change, run_id, epoch)),
    )


async def heartbeat(context: PrincipalContext, request: Heartbeat) -> Commands:
    """Commands, as soon as there are any. A heartbeat of an agent without runs writes nothing."""
    context.registry.seen(request.agent_id, request.incarnation, request.slots)

    renewed = False

    async def look() -> Commands | None:
        """Only the first check renews: the agent may have died before a later one."""
        nonlocal renewed
        if not request.running:
            return None
        if renewed:
            found = await context.store.read_async(lambda tx: reports.commands(tx, request.running))
        else:
            found = await context.change(_renew)
            renewed = True
        return found if found.cancel or found.lost else None

    def _renew(change: Change) -> Commands:
        return reports.heartbeat(change, request.agent_id, request.incarnation, request.running)

    topics = [agent_topic(request.incarnation)]
    # With a short heartbeat timeout, the answer must still leave time for the next heartbeat.
    parked_ms = min(request.wait_ms, context.store.lease_ms // 3)
    commands = await context.long_polls.until(look, topics, seconds(parked_ms))
    return commands or Commands()


async def ship(context: PrincipalContext, request: Ship) -> Acked:
    """Acknowledged once it is stored, then published."""
    stored = await context.change(lambda change: reports.store_records(change, request))
    await context.publish(stored.blocks)
    return Acked(acked=stored.acked)


async def _next_run(context: PrincipalContext, request: FetchRun) -> Row | None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds(request.wait_ms)
    with context.fetch_queue.join(request.agent_id, request.incarnation) as fetch:
        while True:
            fetch.clear()
            run = await context.change(
                lambda change: runs.claim(change, request.agent_id, request.incarnation, held=request.held)
            )
            if run is not None or fetch.closed or fetch.assigned is not None:
                break
            if not await fetch.wait(max(0.0, until - loop.time())) or fetch.assigned is not None:
                break
    # One may have been assigned while it claimed another: the assigned one is released.
    if run is not None and fetch.assigned is not None:
        extra = fetch.assigned
        await context.change(lambda change: runs.unclaim(change, extra["run_id"], extra["epoch"]))
    return run or fetch.assigned


_log = logging.getLogger(__name__)

# What a verb gives is sent as JSON, unless it is an Answer already.
_VERBS: Mapping[type[requests.Request[Any]], Callable[[PrincipalContext, Any], Awaitable[object]]] = {
    requests.Ping: old_peers.ping,
    requests.ListWorkflows: old_peers.list_workflows,
    requests.RunTask: old_peers.run_task,
    requests.RegisterAgent: old_peers.register_agent,
    requests.FetchWorkflow: old_peers.fetch_workflow,
    requests.AgentWorkflowStatus: old_peers.workflow_status,
    requests.AgentTaskStatus: old_peers.task_status,
    requests.QueryLogs: old_peers.query_logs,
    requests.GetRecentStatuses: old_peers.recent_statuses,
    requests.GetRegisteredAgents: old_peers.registered_agents,
    requests.RunWorkflow: run_workflow,
    requests.CancelRun: cancel_run,
    requests.GetRun: get_run,
    requests.ListRuns: list_runs,
    requests.WatchRun: watch_run,
    requests.GetLogs: get_logs,
    requests.ListDefinitions: list_definitions,
    requests.CheckWorkflows: check_workflows,
    requests.ListAgents: list_agents,
    requests.FetchRun: fetch_run,
    requests.Heartbeat: heartbeat,
    requests.Ship: ship,
}


async def answer(context: PrincipalContext, frame: bytes) -> Answer:
    """Every frame gets an answer: no request can end the principal."""
    try:
        request = parse_request(frame)
        found = await _VERBS[type(request)](context, request)
        return found if isinstance(found, Answer) else Answer(success(encode_answer(found)))
    except ProtocolError as error:
        return Answer(client_error(f"ParseError: {error}"))
    except InputError as error:
        return Answer(client_error(str(error)))
    except AgentFlowError as error:
        _log.error("a request failed: %s", cut(str(error)))
        return Answer(server_error(str(error)))
    except Exception as error:
        _log.exception("a request failed with an unexpected error")
        return Answer(server_error(f"{type(error).__name__}: {error}"))
