"""Finding things of a fleet by what one has of them."""

from __future__ import annotations

from afl.fleet.client import Client
from afl.operations.fleet import fleet
from afl.operations.search import RECENT, Hit, few, within


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
        Hit("fleet agent", agent.agent_id, agent.agent_id, "running" if agent.alive else "silent")
        for agent in fleet.agents(client)
        if within(wanted, agent.agent_id)
    )
    return [*few(runs), *few(flows), *few(agents)]


def _edge(wanted: str, run_id: str) -> bool:
    return run_id.startswith(wanted.lower()) or run_id.endswith(wanted.lower())
