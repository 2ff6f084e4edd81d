"""Queues and dead letters as plain data, and search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.coordination.models import AgentId, DeadLetter
from afl.operations.message import coordination
from afl.operations.message.coordination import Where, agent_text
from afl.operations.parameters import Limit
from afl.operations.search import Hit, few, within


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue on one line: how many messages are in which state; ready ones also by priority."""

    agent: str
    ready: int
    delayed: int
    in_flight: int
    dead: int
    ready_by_priority: dict[str, int]
    oldest_ready_seconds: float | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that will not be tried again, and why; without a message, `raw` is what was found in its place."""

    agent: str
    dead_id: str
    reason: str
    dead_at: str
    attempts: int
    message_id: str
    message: dict[str, Any] | None
    raw: str


@dataclass(frozen=True, slots=True)
class Moved:
    """How many letters went."""

    agent: str
    letters: int


def list_queues(where: Where) -> list[QueueLine]:
    """Every queue that holds messages or dead letters, by name."""
    return [
        QueueLine(
            agent=agent_text(each.agent_id),
            ready=each.ready,
            delayed=each.delayed,
            in_flight=each.in_flight,
            dead=each.dead,
            ready_by_priority={level.name.lower(): count for level, count in each.ready_by_priority.items()},
            oldest_ready_seconds=each.oldest_ready_seconds,
        )
        for each in coordination.queues(where)
    ]


def list_letters(where: Where, agent: str = "", limit: Limit = 100) -> list[Letter]:
    """Dead letters of one agent, or of all, the oldest of each first."""
    return [_letter(owner, letter) for owner, letter in coordination.dead_letters(where, agent, limit)]


def show_letter(where: Where, agent: str, dead_id: str) -> Letter:
    """One dead letter, by its own id or its message's."""
    return _letter(coordination.read_agent(agent), coordination.dead_letter(where, agent, dead_id))


def requeue(where: Where, agent: str, dead_ids: list[str] | None = None) -> Moved:
    """Requeue dead letters, all of an agent if none is named."""
    return Moved(agent, coordination.requeue(where, agent, dead_ids))


def purge(where: Where, agent: str, dead_ids: list[str] | None = None) -> Moved:
    """Delete dead letters, all of an agent if none is named."""
    return Moved(agent, coordination.purge(where, agent, dead_ids))


def _letter(owner: AgentId, letter: DeadLetter) -> Letter:
    held = letter.queue_message
    return Letter(
        agent=agent_text(owner),
        dead_id=letter.dead_id,
        reason=letter.reason,
        dead_at=letter.dead_at,
        attempts=held.delivery_attempts if held is not None else 0,
        message_id=letter.message_id or "",
        message=held.message.model_dump(mode="json") if held is not None else None,
        raw=letter.raw or "",
    )


def search_messages(where: Where, text: str) -> list[Hit]:
    """Agents, registered or with a queue, and circuit breakers."""
    wanted = text.strip()
    if not wanted:
        return []
    queued = [each.agent_id for each in coordination.queues(where)]
    registered = [AgentId.model_validate(each["agent_id"]) for each in coordination.agents(where)]
    known = dict.fromkeys(map(agent_text, [*queued, *registered]))
    agents = (
        Hit("message agent", name, name, exact=name == wanted) for name in known if within(wanted, name)
    )
    breakers = (
        Hit("circuit breaker", each.name, each.name, each.state, exact=each.name == wanted)
        for each in coordination.breakers(where)
        if within(wanted, each.name)
    )
    return [*few(agents), *few(breakers)]
