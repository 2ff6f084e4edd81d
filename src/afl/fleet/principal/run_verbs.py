"""The verbs of those who start, watch and cancel runs."""

from __future__ import annotations

from afl.fleet.answers import AgentView, FileProblem, LogPage, RunDetail, Started, encode_answer
from afl.fleet.errors import RequestRefused
from afl.fleet.principal import logs, runs, views
from afl.fleet.principal.desk import Answer, Desk, seconds
from afl.fleet.principal.store import LOGS, logs_topic, run_topic
from afl.fleet.protocol import success
from afl.fleet.requests import (
    CancelRun,
    CheckWorkflows,
    GetLogs,
    GetRun,
    ListAgents,
    ListDefinitions,
    ListRuns,
    RunWorkflow,
    WatchRun,
)


async def run_workflow(desk: Desk, request: RunWorkflow) -> Answer:
    workflow = await desk.catalogue.find(request.workflow_id)
    if workflow is None:
        raise RequestRefused(f"No workflow exists with id {request.workflow_id}")
    order = desk.catalogue.order(workflow, "RUNWORKFLOW", request.params, request.run_id)
    await desk.enqueue(order)
    return Answer(success(encode_answer(Started(run_id=order.run_id))))


async def cancel_run(desk: Desk, request: CancelRun) -> Answer:
    run = await desk.change(lambda change: runs.cancel(change, request.run_id, request.reason))
    return Answer(success(encode_answer(views.run_view(run, desk.waits))))


async def get_run(desk: Desk, request: GetRun) -> Answer:
    return Answer(success(encode_answer(await _detail(desk, request.run_id))))


async def list_runs(desk: Desk, request: ListRuns) -> Answer:
    found = await desk.store.read_soon(lambda tx: views.list_runs(tx, request, desk.waits))
    return Answer(success(encode_answer(found)))


async def watch_run(desk: Desk, request: WatchRun) -> Answer:
    """The run as soon as it is another than the caller knows; as it is when the time is over."""

    async def look() -> RunDetail | None:
        detail = await _detail(desk, request.run_id)
        return detail if detail.run.version != request.version else None

    detail = await desk.parking.until(look, [run_topic(request.run_id)], seconds(request.wait_ms))
    return Answer(success(encode_answer(detail or await _detail(desk, request.run_id))))


async def get_logs(desk: Desk, request: GetLogs) -> Answer:
    page = LogPage(lines=[], position=request.after, more=False)

    async def look() -> LogPage | None:
        nonlocal page
        page = await desk.store.read_soon(lambda tx: logs.page(tx, request))
        return page if page.lines else None

    instance = await desk.store.read_soon(lambda tx: logs.instance_of(tx, request.run_id))
    topic = logs_topic(instance) if instance else LOGS
    await desk.parking.until(look, [topic], seconds(request.wait_ms))
    return Answer(success(encode_answer(page)))


async def list_definitions(desk: Desk, request: ListDefinitions) -> Answer:
    await desk.catalogue.look()
    return Answer(success(desk.catalogue.definitions))


async def check_workflows(desk: Desk, request: CheckWorkflows) -> Answer:
    await desk.catalogue.refresh()
    found = [
        FileProblem(path=_readable(problem.path), line=problem.line, key=problem.key, error=problem.message)
        for problem in desk.catalogue.problems
    ]
    return Answer(success(encode_answer(found)))


def _readable(path: str) -> str:
    """A file name may hold bytes that are no text, and must not hide the problems of other files."""
    return path.encode("utf-8", "backslashreplace").decode()


async def list_agents(desk: Desk, request: ListAgents) -> Answer:
    running = await desk.store.read_soon(views.running_by_agent)
    found = [
        AgentView(
            agent_id=agent.agent_id,
            incarnation=agent.incarnation,
            slots=agent.slots,
            running=running.get(agent.agent_id, 0),
            last_seen=agent.last_seen,
            alive=desk.is_alive(agent),
        )
        for agent in desk.registry.agents
    ]
    return Answer(success(encode_answer(found)))


async def _detail(desk: Desk, run_id: str) -> RunDetail:
    detail = await desk.store.read_soon(lambda tx: views.run_detail(tx, run_id, desk.waits))
    if detail is None:
        raise RequestRefused(f"No run exists with id {run_id}")
    return detail
