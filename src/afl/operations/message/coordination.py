"""What an operator asks of a Redis server: who is registered, and its circuit breakers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from afl.coordination.breaker_config import CircuitBreakerConfig
from afl.coordination.connections import open_client
from afl.coordination.keys import named_agent
from afl.coordination.models import AgentId
from afl.coordination.redis_breaker import RedisBreaker, known_breakers
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.redis_registry import RedisAgentRegistry
from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name

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


def agents(where: Where) -> list[dict[str, Any]]:
    """List the registered agents, including those that died recently."""
    return with_server(where, lambda redis: RedisAgentRegistry(redis, where.prefix).list_registered())


def breakers(where: Where) -> list[BreakerLine]:
    """Every circuit breaker, by name, judged with the configuration of those who call through it."""

    async def look(redis: Redis) -> list[BreakerLine]:
        return [await _line(redis, where, name) for name in await known_breakers(redis, where.prefix)]

    return with_server(where, look)


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

    return with_server(where, change)


def read_agent(text: str) -> AgentId:
    """`writer` or `writer:instance`."""
    kind, _, instance = text.partition(":")
    if not kind or ":" in instance:
        raise InputError(f"an agent is written type or type:instance, got {text!r}")
    return named_agent(f"{kind}:{instance or 'default'}")


def agent_text(agent_id: AgentId) -> str:
    """The reverse."""
    return agent_id.type if agent_id.instance is None else f"{agent_id.type}:{agent_id.instance}"


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


def with_coordinator(where: Where, work: Callable[[RedisMessageCoordinator], Awaitable[T]]) -> T:
    """What the work comes to, on the queues of this server and prefix."""

    async def opened(redis: Redis) -> T:
        async with RedisMessageCoordinator(redis, where.prefix) as coordinator:
            return await work(coordinator)

    return with_server(where, opened)


def with_server(where: Where, work: Callable[[Redis], Awaitable[T]]) -> T:
    """What the work comes to, on a connection of its own."""

    async def connected() -> T:
        redis = open_client(where.url)
        try:
            return await work(redis)
        finally:
            await redis.aclose()

    return asyncio.run(connected())
