"""A fleet at a glance, for faces that show all of it at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from afl.fleet.client import Client
from afl.fleet.messages import AgentView, FileProblem, RunView, Status
from afl.fleet.workflow import Workflow
from afl.operations.fleet import fleet

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
