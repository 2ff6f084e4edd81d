"""Messages, agents and circuit breakers as an operator sees and changes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from afl.coordination.breaker_config import CircuitBreakerConfig
from afl.coordination.connections import open_client
from afl.coordination.keys import named_agent
from afl.coordination.models import AgentId, DeadLetter, QueueStatistics
from afl.coordination.redis_breaker import RedisBreaker, known_breakers
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.redis_registry import RedisAgentRegistry
from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name
from afl.operations.parameters import Limit, about

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")
Action = Literal["open", "close", "reset"]


@dataclass(frozen=True, slots=True)
class Where:
    """A server and a key prefix."""

    url: str
    prefix: str = "ao"


@dataclass(frozen=True, slots=True)
class BreakerLine:
    """A circuit breaker on one line; times are milliseconds."""

    name: str
    state: str
    forced: bool
    failure_count: int
    total_calls: int
    failed_calls: int
    rejected_calls: int
    since: int  # moment of the last change, 0: never
    retry_after: int  # -1: when somebody closes it


def queues(where: Where) -> list[QueueStatistics]:
    """List the queues: what is ready, delayed, in flight and dead."""

    async def look(redis: Redis) -> list[QueueStatistics]:
        async with RedisMessageCoordinator(redis, where.prefix) as coordinator:
            names = sorted(await coordinator.queues(), key=agent_text)
            return [await coordinator.statistics(name) for name in names]

    return _with_server(where, look)


def agents(where: Where) -> list[dict[str, Any]]:
    """List the registered agents, including those that died recently."""
    return _with_server(where, lambda redis: RedisAgentRegistry(redis, where.prefix).list_registered())


def breakers(where: Where) -> list[BreakerLine]:
    """Every circuit breaker, by name, judged with the configuration of those who call through it."""

    async def look(redis: Redis) -> list[BreakerLine]:
        return [await _line(redis, where, name) for name in await known_breakers(redis, where.prefix)]

    return _with_server(where, look)


def change_breaker(where: Where, action: Action, name: str) -> BreakerLine:
    """Open, close or reset a circuit breaker in every process; InputError for a name that nobody uses."""

    async def change(redis: Redis) -> BreakerLine:
        known = await known_breakers(redis, where.prefix)
        if name not in known:
            near = near_name(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known[:10]) or 'none'}"
            raise InputError(f"there is no circuit breaker {name!r} under prefix {where.prefix!r}; {hint}")
        keeper = RedisBreaker(redis, name, CircuitBreakerConfig(), where.prefix)
        if action == "reset":
            await keeper.reset()
        else:
            await keeper.force("open" if action == "open" else "closed")
        return await _line(redis, where, name)

    return _with_server(where, change)


def dead_letters(
    where: Where, agent: Annotated[str, about("type or type:instance; all.")] = "", limit: Limit = 100
) -> list[tuple[AgentId, DeadLetter]]:
    """List dead letters, the oldest of each agent first."""

    async def look(coordinator: RedisMessageCoordinator) -> list[tuple[AgentId, DeadLetter]]:
        owners = [read_agent(agent)] if agent else sorted(await coordinator.queues(), key=agent_text)
        found = [(owner, await coordinator.dead_letters.list(owner, limit)) for owner in owners]
        return [(owner, letter) for owner, letters in found for letter in letters][:limit]

    return _with_coordinator(where, look)


def dead_letter(where: Where, agent: str, dead_id: str) -> DeadLetter:
    """One dead letter, by its own id or its message's; InputError if there is none."""

    async def look(coordinator: RedisMessageCoordinator) -> DeadLetter:
        return await _found(coordinator, read_agent(agent), dead_id)

    return _with_coordinator(where, look)


def requeue(where: Where, agent: str, dead_ids: list[str] | None = None) -> int:
    """Put dead letters back in line, all of an agent if none is named; how many went."""

    async def put_back(coordinator: RedisMessageCoordinator, owner: AgentId, dead_id: str | None) -> int:
        return await coordinator.dead_letters.requeue(owner, dead_id)

    return _for_each(where, agent, dead_ids, put_back)


def purge(where: Where, agent: str, dead_ids: list[str] | None = None) -> int:
    """Throw dead letters away, all of an agent if none is named; how many went."""

    async def throw_away(coordinator: RedisMessageCoordinator, owner: AgentId, dead_id: str | None) -> int:
        return await coordinator.dead_letters.purge(owner, dead_id)

    return _for_each(where, agent, dead_ids, throw_away)


def read_agent(text: str) -> AgentId:
    """`writer` or `writer:instance`."""
    kind, _, instance = text.partition(":")
    if not kind or ":" in instance:
        raise InputError(f"an agent is written type or type:instance, got {text!r}")
    return named_agent(f"{kind}:{instance or 'default'}")


def agent_text(agent_id: AgentId) -> str:
    """The reverse."""
    return agent_id.type if agent_id.instance is None else f"{agent_id.type}:{agent_id.instance}"


def _for_each(
    where: Where,
    agent: str,
    dead_ids: list[str] | None,
    work: Callable[[RedisMessageCoordinator, AgentId, str | None], Coroutine[Any, Any, int]],
) -> int:
    """Every id is looked up before the first is touched: a typing error changes nothing."""

    async def all_of_them(coordinator: RedisMessageCoordinator) -> int:
        owner = read_agent(agent)
        if dead_ids is None:
            return await work(coordinator, owner, None)
        letters = [await _found(coordinator, owner, dead_id) for dead_id in dead_ids]
        return sum([await work(coordinator, owner, letter.dead_id) for letter in letters])

    return _with_coordinator(where, all_of_them)


async def _found(coordinator: RedisMessageCoordinator, owner: AgentId, dead_id: str) -> DeadLetter:
    letter = await coordinator.dead_letters.peek(owner, dead_id)
    if letter is None:
        raise InputError(
            f"agent {agent_text(owner)} has no dead letter {dead_id!r}; `afl coord dlq list` shows all"
        )
    return letter


async def _line(redis: Redis, where: Where, name: str) -> BreakerLine:
    keeper = RedisBreaker(redis, name, CircuitBreakerConfig(), where.prefix, stored=True)
    standing, counts = await keeper.look()
    return BreakerLine(
        name=name,
        state=standing.state.value,
        forced=standing.forced,
        failure_count=standing.failure_count,
        total_calls=counts.counts["total_calls"],
        failed_calls=counts.counts["failed_calls"],
        rejected_calls=counts.counts["rejected_calls"],
        since=standing.changed_at,
        retry_after=standing.retry_after,
    )


def _with_coordinator(where: Where, work: Callable[[RedisMessageCoordinator], Coroutine[Any, Any, T]]) -> T:
    async def opened(redis: Redis) -> T:
        async with RedisMessageCoordinator(redis, where.prefix) as coordinator:
            return await work(coordinator)

    return _with_server(where, opened)


def _with_server(where: Where, work: Callable[[Redis], Awaitable[T]]) -> T:
    async def connected() -> T:
        redis = open_client(where.url)
        try:
            return await work(redis)
        finally:
            await redis.aclose()

    return asyncio.run(connected())
