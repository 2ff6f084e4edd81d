"""Registries for tests: in memory and on a server, with time that passes when a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from afl.coordination.interfaces import MessageCoordinator
from afl.coordination.memory_registry import AgentBoard, InMemoryAgentRegistry
from afl.coordination.models import AgentId
from afl.coordination.redis_registry import RedisAgentRegistry
from afl.coordination.registry_base import BaseAgentRegistry

# Time passes on a server when all that is stored moves into the past.
_SHIFT = """
local by = tonumber(ARGV[1])
for _, index in ipairs({ KEYS[1], KEYS[2] }) do
  for _, key in ipairs(redis.call('SMEMBERS', index)) do
    local left = redis.call('PTTL', key) - by
    if left <= 0 then
      redis.call('DEL', key)
    else
      local aged = string.gsub(redis.call('GET', key), '"last_heartbeat":([%d.]+)', function(at)
        return '"last_heartbeat":' .. string.format('%.3f', at - by / 1000)
      end)
      redis.call('SET', key, aged, 'PX', left)
    end
  end
end
for _, name in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('ZINCRBY', KEYS[3], -by, name) end
return 1
"""


class Helper:
    """An agent that does nothing; what it says of itself can be changed."""

    def __init__(
        self, kind: str = "helper", instance: str | None = None, capabilities: Iterable[Any] = ()
    ) -> None:
        self.agent_id = AgentId(type=kind, instance=instance)
        self.name = f"{kind} {instance or 'alone'}"
        self.capabilities = list(capabilities)
        self.status = "idle"
        self.requests = 0
        self.state: dict[str, Any] = {}

    def status_snapshot(self) -> dict[str, Any]:
        self.requests += 1  # as a real one, it counts
        return {"status": self.status, "metrics": {"requests": self.requests}}

    async def export_state(self) -> dict[str, Any]:
        return self.state

    async def import_state(self, state: dict[str, Any]) -> None:
        self.state = state


class Place:
    """Where registries meet."""

    def __init__(self, redis: Redis | None) -> None:
        self.redis = redis
        self.prefix = f"t{uuid4().hex}"
        self._now = 1_000_000.0
        self._board = AgentBoard(clock=lambda: self._now)

    def registry(self, coordinator: MessageCoordinator | None = None, **options: Any) -> BaseAgentRegistry:
        """Another registry, as another process would have."""
        if self.redis is None:
            return InMemoryAgentRegistry(board=self._board, coordinator=coordinator, **options)
        return RedisAgentRegistry(self.redis, self.prefix, coordinator=coordinator, **options)

    async def pass_time(self, seconds: float) -> None:
        """What is kept becomes so much older."""
        self._now += seconds
        if self.redis is not None:
            keys = [
                f"{self.prefix}:{name}" for name in ("agents:index", "capabilities:index", "agents:beats")
            ]
            await self.redis.eval(_SHIFT, len(keys), *keys, round(seconds * 1000))


@asynccontextmanager
async def place(kind: str, url: Callable[[], str]) -> AsyncIterator[Place]:
    """A place in "memory", or on "redis"; the server is asked for only then."""
    if kind == "memory":
        yield Place(None)
        return
    async with Redis.from_url(url()) as redis:
        yield Place(redis)
