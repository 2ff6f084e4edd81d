"""The known agents: kept in memory, so that heartbeats do not write to the disk.

The table is at most a minute behind; a starting principal reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afl.fleet.principal.store import Change, Q
from afl.kernel.database import Transaction

_FORGET_MS = 86_400_000
_SAVE_MS = 60_000

_OLD = "old:"


def incarnation_of(agent_id: str) -> str:
    """Old agents have no incarnation; the same id counts as the same agent."""
    return f"{_OLD}{agent_id}"


def is_old(incarnation: str) -> bool:
    """Whether it is an agent of the reference."""
    return incarnation.startswith(_OLD)


@dataclass(slots=True)
class Agent:
    """An agent, and the wall-clock time of its last heartbeat."""

    agent_id: str
    incarnation: str
    slots: int
    last_seen: int
    saved: int = 0


class Registry:
    """Every agent by its id."""

    def __init__(self, wall: Callable[[], int]) -> None:
        self._wall = wall
        self._agents: dict[str, Agent] = {}

    @property
    def agents(self) -> list[Agent]:
        return sorted(self._agents.values(), key=lambda agent: agent.agent_id)

    def seen(self, agent_id: str, incarnation: str, slots: int = 0) -> None:
        """Record a heartbeat."""
        known = self._agents.get(agent_id)
        if known is None or known.incarnation != incarnation:
            self._agents[agent_id] = Agent(agent_id, incarnation, slots, self._wall())
        else:
            known.last_seen = self._wall()
            known.slots = slots or known.slots

    def drop(self, agent_id: str) -> None:
        self._agents.pop(agent_id, None)

    def load(self, tx: Transaction) -> None:
        """Read the table."""
        for row in tx.all(Q.get_agents):
            agent = Agent(
                row["agent_id"], row["incarnation"], row["slots"], row["last_seen"], row["last_seen"]
            )
            self._agents.setdefault(agent.agent_id, agent)

    def due(self) -> list[Agent]:
        """Agents whose row is a minute behind or missing; an agent that was silent for a day is dropped."""
        for agent in [one for one in self._agents.values() if self._wall() - one.last_seen > _FORGET_MS]:
            del self._agents[agent.agent_id]
        return [agent for agent in self._agents.values() if agent.last_seen - agent.saved >= _SAVE_MS]

    def save(self, change: Change, due: Sequence[Agent]) -> None:
        """Write those rows, and delete the rows of dropped agents."""
        for agent in due:
            values = {"agent_id": agent.agent_id, "incarnation": agent.incarnation, "slots": agent.slots}
            change.tx.run(Q.put_agent, last_seen=agent.last_seen, **values)
        known = set(self._agents)
        for row in change.tx.all(Q.get_agents):
            if row["agent_id"] not in known:
                change.tx.run(Q.drop_agent, agent_id=row["agent_id"])
