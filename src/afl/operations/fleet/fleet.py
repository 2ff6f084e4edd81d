"""What a person asks of a fleet's principal: its workflows, runs, agents and log lines."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from afl.fleet.client import Client
from afl.fleet.errors import PrincipalAway, RequestRefused, suggestion
from afl.fleet.messages import AgentView, FileProblem, LogLine, LogPage, RunView, Status
from afl.fleet.requests import (
    CancelRun,
    CheckWorkflows,
    GetLogs,
    GetRun,
    ListAgents,
    ListDefinitions,
    ListRuns,
    RunWorkflow,
)
from afl.fleet.settings import FleetSettings, load_fleet_settings, missing_dotenv
from afl.fleet.workflow import Workflow
from afl.fleet.workflow_json import from_data
from afl.kernel.errors import InputError, NotFoundError, StateError
from afl.kernel.ids import sortable_id
from afl.operations.fleet.fleet_dag import RunStanding, standing
from afl.operations.parameters import Limit, about

_PAGE = 1_000
_HASTE_MS = 1_500
_REACH_MS = 5_000  # nobody waits longer to hear that there is no principal, however long its answers may take
_LETTERS = re.compile(r"[0-9a-z-]+", re.IGNORECASE)


@contextmanager
def connected(settings: FleetSettings) -> Iterator[Client]:
    """A client of the principal of these settings; who does not reach it is told soon, and what to do."""
    try:
        with Client(settings) as client:
            client.ping(_REACH_MS)
            yield client
    except PrincipalAway as away:
        raise with_hint(away) from away


@contextmanager
def connected_soon() -> Iterator[Client]:
    """A client for somebody who looks at a page: an address where nothing listens is not waited for."""
    settings = hasty_settings()
    address = settings.principal_host.strip("[]"), settings.principal_port
    try:
        socket.create_connection(address, _HASTE_MS / 1000).close()
    except OSError as error:
        text = f"nothing answers at {settings.address(settings.principal_port)}: {error.strerror or error}"
        raise with_hint(PrincipalAway(text)) from error
    with connected(settings) as client:
        yield client


def with_hint(away: PrincipalAway) -> PrincipalAway:
    """The error, and whether the settings lack a file; what to do is the hint of every such error."""
    missing = missing_dotenv()
    return PrincipalAway(f"{away}; {missing}" if missing else str(away))


def settings_for(host: str | None, port: int | None) -> FleetSettings:
    """The settings in force, with another address of the principal if one is given."""
    return load_fleet_settings({"principal_host": host, "principal_port": port})


def hasty_settings() -> FleetSettings:
    """The settings in force, with the patience of somebody who looks at a page: one attempt, and a short one."""
    found = load_fleet_settings()
    return replace(
        found, default_zmq_timeout_ms=min(found.default_zmq_timeout_ms, _HASTE_MS), retry_attempts=1
    )


def workflows(client: Client) -> list[Workflow]:
    """Every workflow that can be started, by id."""
    return [from_data(value) for _, value in sorted(client.call(ListDefinitions()).items())]


def problems(client: Client) -> list[FileProblem]:
    """The mistakes in the workflow files, as they are now."""
    return client.call(CheckWorkflows())


def start(client: Client, workflow_id: str, params: Mapping[str, Any] | None = None) -> str:
    """Start a run; its id. It is sent again when no answer comes, and is one run all the same."""
    request = RunWorkflow(workflow_id=workflow_id, params=dict(params or {}), run_id=sortable_id())
    try:
        return client.call(request, retry=True).run_id
    except RequestRefused as refused:
        if not str(refused).startswith("No workflow exists"):
            raise
        raise _unknown_workflow(client, workflow_id) from refused


def runs(
    client: Client, *, workflow: str = "", agent: str = "", statuses: Sequence[Status] = (), limit: Limit = 20
) -> list[RunView]:
    """Runs, the newest first."""
    found: list[RunView] = []
    while len(found) < limit:
        wanted = min(limit - len(found), _PAGE)
        before = found[-1].run_id if found else ""
        page = client.call(
            ListRuns(
                workflow_id=workflow, agent_id=agent, statuses=list(statuses), before=before, limit=wanted
            )
        )
        found += page
        if len(page) < wanted:
            break
    return found


def find_run(client: Client, given: str = "") -> str:
    """The run that an id, or a prefix of it or end, means; without one, the latest."""
    if not given:
        latest = runs(client, limit=1)
        if not latest:
            raise InputError("there are no runs yet; `afl fleet run WORKFLOW` starts one")
        return latest[0].run_id
    if not _LETTERS.fullmatch(given):
        raise InputError(f"{given!r} is not the id of a run; `afl fleet status` lists them")
    known = runs(client, limit=_PAGE)
    for run in known:
        if given in (run.run_id, run.instance_id):
            return run.run_id
    fitting = [run.run_id for run in known if run.run_id.startswith(given) or run.run_id.endswith(given)]
    if len(fitting) > 1:
        raise InputError(f"{given!r} means {len(fitting)} runs: {', '.join(fitting[:5])}; write more of it")
    return fitting[0] if fitting else _older_run(client, given)


def _older_run(client: Client, given: str) -> str:
    try:
        return client.call(GetRun(given)).run.run_id
    except RequestRefused as refused:
        raise NotFoundError(f"there is no run {given!r}; `afl fleet status` lists them") from refused


def show_run(client: Client, run_id: str) -> RunStanding:
    """A run with its tasks in the order of the DAG."""
    return standing(client.call(GetRun(run_id)))


def cancel(
    client: Client,
    run_id: Annotated[str, about("The run's id, or a unique prefix or suffix of it.")],
    reason: Annotated[str, about("Kept with the run.")] = "",
) -> RunView:
    """End a run: its processes, with everything they started."""
    found = find_run(client, run_id)
    run = show_run(client, found).run
    if run.status.is_final:
        raise StateError(f"run {found} is {run.status.value} already; there is nothing to cancel")
    return client.call(CancelRun(found, reason.replace("\x01", " ")), retry=True)


def agents(client: Client) -> list[AgentView]:
    """List the agents: whether they are alive, what they run, when they were last seen."""
    return client.call(ListAgents())


def agent_state(agent: AgentView) -> str:
    """An agent's state in a word."""
    if not agent.alive:
        return "lost"
    return "busy" if agent.running else "ready"


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines; empty and None are no condition. `start` is included, `end` is not; both in milliseconds."""

    run: str = ""
    workflow: str = ""
    task: str = ""
    start: int | None = None
    end: int | None = None
    pattern: str = ""
    text: str = ""

    def request(self, after: int = 0, *, last: int = 0, wait_ms: int = 0) -> GetLogs:
        """The lines behind a position; or the last so many, whatever the reader leaves out of them."""
        return GetLogs(
            run_id=self.run,
            workflow_id=self.workflow,
            start_ms=self.start,
            end_ms=self.end,
            after=after,
            last=last,
            limit=_PAGE,
            wait_ms=wait_ms,
        )


def check_workflow(client: Client, workflow_id: str) -> None:
    """InputError for an id that neither a file nor a run has."""
    known = client.call(ListDefinitions())
    if workflow_id not in known and not runs(client, workflow=workflow_id, limit=1):
        raise _unknown_workflow(client, workflow_id)


def check_task(client: Client, query: LogQuery) -> None:
    """InputError for a task that the query's run or workflow, or else any workflow, does not have."""
    flows, where = workflows(client), ""
    if query.run:
        own = show_run(client, query.run).workflow
        if own is None:  # a run that an old agent began by itself has no definition
            return
        flows, where = [own], f" in run {query.run}"
    elif query.workflow:
        flows, where = [flow for flow in flows if flow.id == query.workflow], f" in workflow {query.workflow}"
    known = [name for flow in flows for task_id, task in flow.tasks.items() for name in (task_id, task.name)]
    if query.task not in known:
        near = suggestion(query.task, dict.fromkeys(known)) if known else ""
        raise InputError(f"there is no task {query.task!r}{where}{near}")


class LogFilter:
    """The conditions that only the reader knows: a task by its id or name, a regular expression, a text.

    An expression can take longer than anybody waits, so a server takes none from others: they search by text.
    """

    def __init__(self, query: LogQuery, known: Sequence[Workflow] = ()) -> None:
        self._names = task_names(query.task, known)
        self._pattern = compiled(query.pattern)
        self._text = query.text.casefold()

    def passes(self, line: LogLine) -> bool:
        if self._names and line.task_name not in self._names:
            return False
        if self._text not in line.payload.casefold():
            return False
        return self._pattern is None or self._pattern.search(line.payload) is not None


def read_logs(client: Client, query: LogQuery) -> Iterator[LogLine]:
    """The lines that fit, in the order they arrived, up to the last one there is now."""
    chosen = LogFilter(query, workflows(client) if query.task else ())
    page = LogPage(lines=[], position=0, more=True)
    while page.more:
        page = client.call(query.request(page.position))
        yield from (line for line in page.lines if chosen.passes(line))


def task_names(task: str, known: Sequence[Workflow]) -> frozenset[str]:
    """The names that lines of a task carry: what was given is a name, or an id in some workflow."""
    if not task:
        return frozenset()
    return frozenset({task} | {flow.tasks[task].name for flow in known if task in flow.tasks})


def compiled(pattern: str) -> re.Pattern[str] | None:
    """The regular expression; InputError for text that is none."""
    try:
        return re.compile(pattern) if pattern else None
    except re.error as error:
        raise InputError(f"{pattern!r} is not a regular expression: {error}") from error


def _unknown_workflow(client: Client, workflow_id: str) -> InputError:
    """What is near the id, or what is wrong with its file."""
    wrong = [problem for problem in problems(client) if _file_of(workflow_id) in problem.path]
    if wrong:
        found = wrong[0]
        return InputError(f"{found.path}:{found.line} is not a workflow: {found.key}: {found.error}")
    known = client.call(ListDefinitions())
    return InputError(f"there is no workflow {workflow_id!r}{suggestion(workflow_id, known)}")


def _file_of(workflow_id: str) -> str:
    return "/" + workflow_id.replace(".", "/") + ".y"
