"""A fleet as plain data: workflows, runs, the last log lines, an overview, and search."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from afl.fleet.client import Client
from afl.fleet.messages import AgentView, FileProblem, LogLine, LogPage, RunView, Status
from afl.fleet.protocol import read_mark
from afl.fleet.workflow import Task, Workflow
from afl.fleet.workflow_json import from_data, to_data
from afl.operations.fleet import fleet
from afl.operations.fleet.fleet import LogFilter, LogQuery, show_run, start, workflows
from afl.operations.fleet.fleet_dag import RunStanding, TaskLine
from afl.operations.parameters import Limit
from afl.operations.search import RECENT, Hit, few, within


@dataclass(frozen=True, slots=True)
class FleetTask:
    """A node of a DAG; `kind` says what starts it."""

    task_id: str
    name: str
    kind: str
    description: str
    depends: list[str]


@dataclass(frozen=True, slots=True)
class FleetWorkflow:
    """A DAG that can be started. `definition` is all of it, as principal and agents exchange it."""

    id: str
    name: str
    description: str
    path: str
    cron: str
    parameters: list[str]
    tasks: list[FleetTask]
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A run with its tasks in the order of the DAG, and the workflow as it was when the run was made."""

    run: RunView
    tasks: list[TaskLine]
    workflow: FleetWorkflow | None


@dataclass(frozen=True, slots=True)
class FleetStarted:
    """A run that the principal has."""

    run_id: str
    workflow_id: str


def list_workflows(client: Client) -> list[FleetWorkflow]:
    """Every workflow that can be started, by id."""
    return [workflow_data(each) for each in workflows(client)]


def show(client: Client, run_id: str) -> FleetRun:
    """A run with its tasks and its workflow."""
    return run_data(show_run(client, run_id))


def start_run(client: Client, workflow_id: str, params: dict[str, Any] | None = None) -> FleetStarted:
    """Start a run; values that do not match the workflow's parameters are refused."""
    return FleetStarted(start(client, workflow_id, params), workflow_id)


def run_data(found: RunStanding) -> FleetRun:
    """A run as plain data."""
    workflow = workflow_data(found.workflow) if found.workflow is not None else None
    return FleetRun(found.run, list(found.tasks), workflow)


def run_of(data: FleetRun) -> RunStanding:
    """The run that the data tell of."""
    workflow = workflow_of(data.workflow) if data.workflow is not None else None
    return RunStanding(data.run, workflow, tuple(data.tasks))


def workflow_of(data: FleetWorkflow) -> Workflow:
    """The workflow that the data tell of."""
    return from_data(data.definition)


def workflow_data(workflow: Workflow) -> FleetWorkflow:
    """A workflow as plain data."""
    return FleetWorkflow(
        id=workflow.id,
        name=workflow.name,
        description=workflow.description or "",
        path=workflow.path,
        cron=workflow.cron or "",
        parameters=list(workflow.params),
        tasks=[_task(task_id, task) for task_id, task in workflow.tasks.items()],
        definition=to_data(workflow),
    )


def _task(task_id: str, task: Task) -> FleetTask:
    kind = type(task.config).__name__
    return FleetTask(task_id, task.name, kind, task.description or "", list(task.depends))


LAST = 500
_COLOR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def last_lines(
    client: Client, run_id: str, *, task: str = "", text: str = "", limit: Limit = LAST
) -> LogPage:
    """The last lines of a run: of one task (by its id or name), and those that hold a text, in whatever case.

    `position` is behind the last line there is now, whether it fits or not; `more` says that older ones were left out.
    """
    query = LogQuery(run=run_id, task=task, text=text)
    if not task and not text:
        page = client.call(query.request(last=limit))
        return LogPage(lines=page.lines, position=page.position, more=len(page.lines) == limit)
    flow = show_run(client, run_id).workflow
    chosen = LogFilter(query, [] if flow is None else [flow])
    fitting: deque[LogLine] = deque(maxlen=limit)
    page = LogPage(lines=[], position=0, more=True)
    dropped = False
    while page.more:
        page = client.call(query.request(page.position))
        for line in filter(chosen.passes, page.lines):
            dropped = dropped or len(fitting) == limit
            fitting.append(line)
    return LogPage(lines=list(fitting), position=page.position, more=dropped)


def plain_payload(payload: str) -> str:
    """What the task wrote, without the mark of the stream, which its color tells; "⋯" goes on with the line before.

    Colors are dropped, and what else would steer a terminal is shown as a character that does not.
    """
    continues, text = read_mark(payload)
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _COLOR.sub("", text))
    return f"⋯ {shown}" if continues else shown


_RUNS = 200
_FILES_EVERY = 5  # workflow files change seldom; runs and agents are looked at every time


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything as of one look."""

    workflows: tuple[Workflow, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    runs: tuple[RunView, ...] = ()
    agents: tuple[AgentView, ...] = ()

    @property
    def open_runs(self) -> int:
        return sum(1 for run in self.runs if not run.status.is_final)

    @property
    def live_agents(self) -> int:
        return sum(1 for agent in self.agents if agent.alive)

    def workflow(self, workflow_id: str) -> Workflow | None:
        return next((each for each in self.workflows if each.id == workflow_id), None)

    def run(self, run_id: str) -> RunView | None:
        return next((each for each in self.runs if each.run_id == run_id), None)

    def runs_of(self, workflow_id: str) -> list[RunView]:
        """The runs of a workflow; all for an empty id."""
        return [run for run in self.runs if not workflow_id or run.workflow_id == workflow_id]

    def last_status(self, workflow_id: str) -> Status | None:
        """How the newest run of a workflow stands."""
        return next((run.status for run in self.runs if run.workflow_id == workflow_id), None)


@dataclass(slots=True)
class OverviewReader:
    """Looks again and again; keeps what need not be asked for every time."""

    client: Client
    _looks: int = 0
    _last: Overview = field(default_factory=Overview)

    def look(self) -> Overview:
        workflows, problems = self._last.workflows, self._last.problems
        if self._looks % _FILES_EVERY == 0:
            problems = tuple(fleet.problems(self.client))
            workflows = tuple(fleet.workflows(self.client))
        runs = tuple(fleet.runs(self.client, limit=_RUNS))
        agents = tuple(sorted(fleet.agents(self.client), key=lambda agent: (not agent.alive, agent.agent_id)))
        self._looks += 1
        self._last = Overview(workflows, problems, runs, agents)
        return self._last


def search_fleet(client: Client, text: str) -> list[Hit]:
    """Workflows and agents by a part of their name, runs by the beginning or end of their id."""
    wanted = text.strip()
    if not wanted:
        return []
    runs = (
        Hit("fleet run", run.run_id, run.workflow_name, run.status.value, exact=run.run_id == wanted)
        for run in fleet.runs(client, limit=RECENT)
        if _edge(wanted, run.run_id)
    )
    flows = (
        Hit("fleet workflow", flow.id, flow.name, about=flow.description or "", exact=flow.id == wanted)
        for flow in fleet.workflows(client)
        if within(wanted, flow.id, flow.name)
    )
    agents = (
        Hit("fleet agent", agent.agent_id, agent.agent_id, fleet.agent_state(agent))
        for agent in fleet.agents(client)
        if within(wanted, agent.agent_id)
    )
    return [*few(runs), *few(flows), *few(agents)]


def _edge(wanted: str, run_id: str) -> bool:
    return run_id.startswith(wanted.lower()) or run_id.endswith(wanted.lower())
