"""The fleet, as the client sees it: `flow.fleet`. It needs the extra `fleet`."""

from __future__ import annotations

from typing import Any

from afl.client.async_calls import AsyncCalls
from afl.fleet.messages import AgentView, LogPage, RunView
from afl.operations.fleet import fleet, fleet_view
from afl.operations.fleet.fleet_view import FleetRun, FleetStarted, FleetWorkflow


class AsyncFleet:
    """DAGs of processes: their workflows, runs and agents, by the principal that the settings name."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def workflows(self) -> list[FleetWorkflow]:
        """The workflows that the principal knows."""
        return await self._calls.call(fleet_view.list_workflows)

    async def start(self, workflow_id: str, params: dict[str, Any] | None = None) -> FleetStarted:
        """Start a run of a workflow."""
        return await self._calls.call(fleet_view.start_run, workflow_id, params)

    async def show(self, run_id: str) -> FleetRun:
        """A run with its tasks."""
        return await self._calls.call(fleet_view.show, run_id)

    async def logs(self, run_id: str, *, task: str = "", text: str = "", limit: int = 500) -> LogPage:
        """The last lines that the tasks of a run wrote."""
        return await self._calls.call(fleet_view.last_lines, run_id, task=task, text=text, limit=limit)

    async def cancel(self, run_id: str, reason: str = "") -> RunView:
        """End a run."""
        return await self._calls.call(fleet.cancel, run_id, reason)

    async def runs(self, *, workflow: str = "", agent: str = "", limit: int = 20) -> list[RunView]:
        """The newest runs, newest first."""
        return await self._calls.call(fleet.runs, workflow=workflow, agent=agent, limit=limit)

    async def agents(self) -> list[AgentView]:
        """The agents of the fleet."""
        return await self._calls.call(fleet.agents)
