"""Queues and dead letters as an operator sees and changes them, and search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from afl.coordination.models import AgentId, DeadLetter, QueueStatistics
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.kernel.errors import InputError
from afl.operations.message.coordination import (
    Where,
    agent_text,
    agents,
    breakers,
    read_agent,
    with_coordinator,
)
from afl.operations.parameters import Limit, about
from afl.operations.search import Hit, few, within


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue on one line: how many messages are in which state; ready ones also by priority, the most urgent first."""

    agent: str
    ready: int
    delayed: int
    in_flight: int
    dead: int
    ready_by_priority: dict[str, int]
    oldest_ready_seconds: float | None
    next_due_seconds: float | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that will not be tried again, and why; without a message, `raw` is what was found in its place."""

    agent: str
    dead_id: str
    reason: str
    dead_at: str
    attempts: int
    message_id: str
    priority: str
    enqueued_at: str
    message: dict[str, Any] | None
    raw: str


@dataclass(frozen=True, slots=True)
class Moved:
    """How many letters went."""

    agent: str
    letters: int


def queues(where: Where) -> list[QueueLine]:
    """List the queues: what is ready, delayed, in flight and dead."""

    async def look(coordinator: RedisMessageCoordinator) -> list[QueueLine]:
        names = sorted(await coordinator.queues(), key=agent_text)
        return [_queue(await coordinator.statistics(name)) for name in names]

    return with_coordinator(where, look)


def dead_letters(
    where: Where, agent: Annotated[str, about("type or type:instance; all.")] = "", limit: Limit = 100
) -> list[Letter]:
    """List dead letters, the oldest of each agent first."""

    async def look(coordinator: RedisMessageCoordinator) -> list[Letter]:
        owners = [read_agent(agent)] if agent else sorted(await coordinator.queues(), key=agent_text)
        found = [(owner, await coordinator.dead_letters.list(owner, limit)) for owner in owners]
        return [_letter(owner, letter) for owner, letters in found for letter in letters][:limit]

    return with_coordinator(where, look)


def dead_letter(where: Where, agent: str, dead_id: str) -> Letter:
    """One dead letter, by its own id or its message's; InputError if there is none."""

    async def look(coordinator: RedisMessageCoordinator) -> Letter:
        owner = read_agent(agent)
        return _letter(owner, await _found(coordinator, owner, dead_id))

    return with_coordinator(where, look)


def requeue(where: Where, agent: str, dead_ids: list[str] | None = None) -> Moved:
    """Requeue dead letters, all of an agent if none is named."""
    return _move(where, agent, dead_ids, lambda coordinator: coordinator.dead_letters.requeue)


def purge(where: Where, agent: str, dead_ids: list[str] | None = None) -> Moved:
    """Delete dead letters, all of an agent if none is named."""
    return _move(where, agent, dead_ids, lambda coordinator: coordinator.dead_letters.purge)


def search_messages(where: Where, text: str) -> list[Hit]:
    """Agents, registered or with a queue, and circuit breakers."""
    wanted = text.strip()
    if not wanted:
        return []
    registered = (agent_text(AgentId.model_validate(each["agent_id"])) for each in agents(where))
    known = dict.fromkeys([*(each.agent for each in queues(where)), *registered])
    named = (Hit("message agent", name, name, exact=name == wanted) for name in known if within(wanted, name))
    keepers = (
        Hit("circuit breaker", each.name, each.name, each.state, exact=each.name == wanted)
        for each in breakers(where)
        if within(wanted, each.name)
    )
    return [*few(named), *few(keepers)]


_Mover = Callable[[AgentId, str | None], Awaitable[int]]


def _move(
    where: Where,
    agent: str,
    dead_ids: list[str] | None,
    mover: Callable[[RedisMessageCoordinator], _Mover],
) -> Moved:
    """Every id is looked up before the first is touched: a typing error changes nothing."""

    async def move(coordinator: RedisMessageCoordinator) -> Moved:
        owner, one = read_agent(agent), mover(coordinator)
        if dead_ids is None:
            return Moved(agent, await one(owner, None))
        letters = [await _found(coordinator, owner, dead_id) for dead_id in dead_ids]
        return Moved(agent, sum([await one(owner, letter.dead_id) for letter in letters]))

    return with_coordinator(where, move)


async def _found(coordinator: RedisMessageCoordinator, owner: AgentId, dead_id: str) -> DeadLetter:
    letter = await coordinator.dead_letters.peek(owner, dead_id)
    if letter is None:
        raise InputError(
            f"agent {agent_text(owner)} has no dead letter {dead_id!r}; `afl coord dlq list` shows all"
        )
    return letter


def _queue(found: QueueStatistics) -> QueueLine:
    return QueueLine(
        agent=agent_text(found.agent_id),
        ready=found.ready,
        delayed=found.delayed,
        in_flight=found.in_flight,
        dead=found.dead,
        ready_by_priority={
            level.name.lower(): count
            for level, count in sorted(found.ready_by_priority.items(), reverse=True)
        },
        oldest_ready_seconds=found.oldest_ready_seconds,
        next_due_seconds=found.next_due_seconds,
    )


def _letter(owner: AgentId, letter: DeadLetter) -> Letter:
    held = letter.queue_message
    return Letter(
        agent=agent_text(owner),
        dead_id=letter.dead_id,
        reason=letter.reason,
        dead_at=letter.dead_at,
        attempts=held.delivery_attempts if held else 0,
        message_id=letter.message_id or "",
        priority=held.priority.name.lower() if held else "",
        enqueued_at=held.enqueued_at or "" if held else "",
        message=held.message.model_dump(mode="json") if held else None,
        raw=letter.raw or "",
    )
