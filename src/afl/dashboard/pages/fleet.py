"""Pages of the fleet: workflows, runs with their DAG and log lines, agents."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.drawings import BOX_HEIGHT, BOX_WIDTH, draw_dag
from afl.dashboard.live import WATCHERS, BackgroundPoll, Look, Sources, Watcher
from afl.dashboard.pages.parts import FLEET, ask_soon, live_page, number_of, of_part, text_of
from afl.dashboard.pages.search import SEARCHES
from afl.dashboard.rendering import ENVIRONMENT, flash_redirect, fragment, page
from afl.dashboard.streams import apart, event_stream
from afl.fleet.errors import PrincipalAway, RequestRefused
from afl.fleet.messages import LogLine, Status
from afl.fleet.requests import ListAgents, ListRuns, WatchRun
from afl.fleet.workflow import ParameterKind, Workflow
from afl.kernel.errors import InputError, NotFoundError
from afl.operations.fleet import fleet
from afl.operations.fleet.fleet import LogFilter, LogQuery
from afl.operations.fleet.fleet_dag import RunStanding, TaskLine, ending, task_lines
from afl.operations.fleet.fleet_follow import follow_logs
from afl.operations.fleet.fleet_view import (
    last_lines,
    list_workflows,
    plain_payload,
    run_of,
    search_fleet,
    show,
    start_run,
    workflow_of,
)

_LONGEST = 400


@dataclass(frozen=True)
class LineFilter:
    """Which lines: of one task, and those that hold a text."""

    task: str = ""
    text: str = ""

    @classmethod
    def of(cls, request: Request) -> LineFilter:
        given = request.query_params
        return cls(given.get("task", "")[:_LONGEST], given.get("text", "")[:_LONGEST])

    @property
    def is_set(self) -> bool:
        return bool(self.task or self.text)


async def named_run(request: Request) -> RunStanding:
    """The run that the path names; NotFoundError if the principal has none of that id."""
    try:
        return run_of(await ask_soon(request, show, request.path_params["run"]))
    except RequestRefused as refused:
        raise NotFoundError(str(refused)) from refused


@of_part(FLEET)
async def lines_stream(request: Request) -> Response:
    """Lines behind a position, for as long as the browser listens; it reads on where it was after an outage."""
    standing = await named_run(request)
    wanted = LineFilter.of(request)
    query = LogQuery(run=standing.run.run_id, task=wanted.task, text=wanted.text)
    chosen = LogFilter(query, [] if standing.workflow is None else [standing.workflow])
    return event_stream(request, _events(query, chosen, _after(request)))


def _after(request: Request) -> int:
    return number_of(request.headers.get("last-event-id") or request.query_params.get("after", ""))


async def _events(query: LogQuery, chosen: LogFilter, after: int) -> AsyncGenerator[str, None]:
    template = ENVIRONMENT.get_template("fleet_lines.html")
    yield "retry: 2000\n\n"
    try:
        async for lines in apart(follow_logs(fleet.hasty_settings(), query, chosen, after=after)):
            shown = template.render(lines=lines, plain=plain_payload)
            yield f"id: {_last(lines)}\nevent: append\ndata: {json.dumps(shown)}\n\n"
    except PrincipalAway:
        yield "event: away\ndata: {}\n\n"  # the browser comes back by itself


def _last(lines: list[LogLine]) -> int:
    return lines[-1].position


_RUNS = 50
_WATCH_MS = 1_000
_TRIGGERS = {"RUNWORKFLOW": "on demand", "RUNTASK": "on demand", "schedule": "on a schedule"}


async def _overview(request: Request) -> dict[str, Any]:
    workflow = request.query_params.get("workflow", "").strip()
    status = _status(request.query_params.get("status", ""))
    statuses = [status] if status is not None else []
    runs = await ask_soon(request, fleet.runs, workflow=workflow, statuses=statuses, limit=_RUNS)
    agents = await ask_soon(request, fleet.agents)
    chosen = {"workflow": workflow, "status": "" if status is None else status.value}
    return {
        "trigger_words": trigger_words,
        "agent_state": fleet.agent_state,
        "ending": ending,
        "workflows": await _workflows(request),
        "problems": await ask_soon(request, fleet.problems),
        "runs": runs,
        "agents": sorted(agents, key=lambda agent: (not agent.alive, agent.agent_id)),
        "chosen": chosen,
        "statuses": [each.value for each in Status],
        "most": _RUNS,
        "source": f"/fleet/fragment/lists?{urlencode({name: text for name, text in chosen.items() if text})}",
    }


def _status(text: str) -> Status | None:
    return next((each for each in Status if each.value == text), None)


@of_part(FLEET)
async def workflow(request: Request) -> Response:
    found = await _workflow(request)
    runs = await ask_soon(request, fleet.runs, workflow=found.id, limit=20)
    tasks = {line.task_id: line for line in task_lines(found)}
    return await page(
        request,
        "fleet_workflow.html",
        active="fleet",
        workflow=found,
        runs=runs,
        tasks=tasks,
        trigger_words=trigger_words,
        ending=ending,
        **_picture(found, tasks),
    )


async def _workflows(request: Request) -> list[Workflow]:
    return [workflow_of(each) for each in await ask_soon(request, list_workflows)]


async def _workflow(request: Request) -> Workflow:
    wanted = request.path_params["workflow"]
    found = next((each for each in await _workflows(request) if each.id == wanted), None)
    if found is None:
        raise NotFoundError(
            f"there is no workflow {wanted!r}; its file may have a problem, which the fleet's page shows"
        )
    return found


@of_part(FLEET)
async def start(request: Request) -> Response:
    """Start a run from the form; what does not fit is said, and nothing starts."""
    found, form = await _workflow(request), await request.form()
    try:
        begun = await ask_soon(request, start_run, found.id, _given(found, form))
    except InputError as error:
        return flash_redirect(request, f"/fleet/workflows/{quote(found.id, safe='')}", str(error), "bad")
    return flash_redirect(request, f"/fleet/runs/{begun.run_id}", f"Started {found.name}.")


def _given(workflow: Workflow, form: FormData) -> dict[str, Any]:
    """What was filled in; an empty field leaves the default, an empty box is false."""
    given: dict[str, Any] = {}
    for name, parameter in workflow.params.items():
        text = text_of(form, f"param.{name}")
        if parameter.kind is ParameterKind.BOOLEAN:
            given[name] = text == "true"
        elif text:
            given[name] = text
    return given


@of_part(FLEET)
async def run(request: Request) -> Response:
    standing = await named_run(request)
    wanted = LineFilter.of(request)
    lines = await ask_soon(request, last_lines, standing.run.run_id, task=wanted.task, text=wanted.text)
    return await page(
        request,
        "fleet_run.html",
        active="fleet",
        lines=lines,
        wanted=wanted,
        plain=plain_payload,
        **_standing(standing),
    )


@of_part(FLEET)
async def run_state(request: Request) -> Response:
    standing = await named_run(request)
    return await fragment(request, "fleet_run_state.html", **_standing(standing))


def _standing(standing: RunStanding) -> dict[str, Any]:
    tasks = {task.task_id: task for task in standing.tasks}
    picture = _picture(standing.workflow, tasks)
    return {
        "standing": standing,
        "run": standing.run,
        "tasks": tasks,
        "trigger_words": trigger_words,
        **picture,
    }


def trigger_words(trigger: str) -> str:
    """Who or what made a run."""
    return _TRIGGERS.get(trigger, trigger.lower())


def _picture(workflow: Workflow | None, tasks: dict[str, TaskLine]) -> dict[str, Any]:
    drawing = draw_dag(workflow.dag) if workflow is not None and tasks else None
    return {"drawing": drawing, "box_width": BOX_WIDTH, "box_height": BOX_HEIGHT}


@of_part(FLEET)
async def cancel(request: Request) -> Response:
    form = await request.form()
    run_id = request.path_params["run"]
    back = f"/fleet/runs/{quote(run_id, safe='')}"
    reason = text_of(form, "reason") or f"canceled by {request.state.client.caller.name}"
    try:
        await ask_soon(request, fleet.cancel, run_id, reason)
    except InputError as error:
        return flash_redirect(request, back, str(error), "bad")
    return flash_redirect(request, back, "Cancellation was requested; the agent ends its processes first.")


@contextmanager
def _opened(sources: Sources) -> Iterator[Look]:
    with fleet.connected_soon() as client:
        versions: dict[str, int] = {}

        def look(run_id: str) -> object:
            if run_id:  # the principal answers as soon as it differs
                known = versions.get(run_id, 0)
                versions[run_id] = client.call(WatchRun(run_id, known, _WATCH_MS)).run.version
                return versions[run_id]
            runs = client.call(ListRuns(limit=_RUNS))
            agents = client.call(ListAgents())
            return (
                [(run.run_id, run.version) for run in runs],
                [(agent.agent_id, agent.running, agent.alive) for agent in agents],
            )

        yield look


_LOOKOUT = BackgroundPoll(_opened, every_seconds=0.1)
WATCHERS["fleet"] = WATCHERS["fleet-run"] = Watcher(_LOOKOUT.see, every_ms=100)
SEARCHES["fleet"] = search_fleet

routes = [
    *live_page("/fleet", "fleet", "lists", _overview, part=FLEET),
    Route("/fleet/workflows/{workflow}", workflow),
    Route("/fleet/workflows/{workflow}/start", start, methods=["POST"]),
    Route("/fleet/runs/{run}", run),
    Route("/fleet/runs/{run}/fragment/state", run_state),
    Route("/fleet/runs/{run}/lines", lines_stream),
    Route("/fleet/runs/{run}/cancel", cancel, methods=["POST"]),
]
