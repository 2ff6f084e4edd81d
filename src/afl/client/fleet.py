# Generated from async_fleet.py by `make docs`; change that file.
"""The fleet, as the client sees it: `flow.fleet`. It needs the extra `fleet`."""

from __future__ import annotations

from typing import Any

from afl.client.calls import Calls
from afl.fleet.messages import AgentView, LogPage, RunView
from afl.operations.fleet import fleet, fleet_view
from afl.operations.fleet.fleet_view import FleetRun, FleetStarted, FleetWorkflow


class Fleet:
    """DAGs of processes: their workflows, runs and agents, by the principal that the settings name."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def workflows(self) -> list[FleetWorkflow]:
        """The workflows that the principal knows."""
        return self._calls.call(fleet_view.list_workflows)

    def start(self, workflow_id: str, params: dict[str, Any] | None = None) -> FleetStarted:
        """Start a run of a workflow."""
        return self._calls.call(fleet_view.start_run, workflow_id, params)

    def show(self, run_id: str) -> FleetRun:
        """A run with its tasks."""
        return self._calls.call(fleet_view.show, run_id)

    def logs(self, run_id: str, *, task: str = "", text: str = "", limit: int = 500) -> LogPage:
        """The last lines that the tasks of a run wrote."""
        return self._calls.call(fleet_view.last_lines, run_id, task=task, text=text, limit=limit)

    def cancel(self, run_id: str, reason: str = "") -> RunView:
        """End a run."""
        return self._calls.call(fleet.cancel, run_id, reason)

    def runs(self, *, workflow: str = "", agent: str = "", limit: int = 20) -> list[RunView]:
        """The newest runs, newest first."""
        return self._calls.call(fleet.runs, workflow=workflow, agent=agent, limit=limit)

    def agents(self) -> list[AgentView]:
        """The agents of the fleet."""
        return self._calls.call(fleet.agents)
