"""Circuit breakers for tests: in memory and on a server, with time that passes when a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from afl.coordination.breaker_config import CircuitBreakerConfig
from afl.coordination.circuit_breaker import CircuitBreaker

# Time passes on a server when all that is stored moves into the past.
_SHIFT = """
local by, size = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('HEXISTS', KEYS[1], 'changed_at') == 1 then redis.call('HINCRBY', KEYS[1], 'changed_at', -by) end
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do redis.call('ZINCRBY', KEYS[2], -by, id) end
local window = redis.call('HGETALL', KEYS[3])
redis.call('DEL', KEYS[3])
for i = 1, #window, 2 do
  local bucket, kind = string.match(window[i], '^(%d+):(%a)$')
  redis.call('HSET', KEYS[3], (bucket - math.floor(by / size)) .. ':' .. kind, window[i + 1])
end
return 1
"""


class Circuit:
    """One breaker's state, and as many objects on it as a test wants."""

    def __init__(self, redis: Redis | None, config: CircuitBreakerConfig) -> None:
        self.redis = redis
        self.config = config
        self.name = "service"
        self.prefix = f"t{uuid4().hex}"
        self._now = 1_000_000
        self._only: CircuitBreaker | None = None

    def breaker(self, **options: Any) -> CircuitBreaker:
        """Another object on the same state, as another process would have; in memory there is but one."""
        if self.redis is not None:
            return CircuitBreaker(self.redis, self.name, self.config, self.prefix, **options)
        if self._only is None or options:
            self._only = CircuitBreaker(None, self.name, self.config, clock=lambda: self._now, **options)
        return self._only

    async def pass_time(self, seconds: float) -> None:
        """What is kept becomes so much older."""
        by = round(seconds * 1000)
        self._now += by
        if self.redis is not None:
            size = -(-round(self.config.window_seconds * 1000) // 20)
            keys = [f"{self.prefix}:cb:{kind}:{self.name}" for kind in ("state", "slots", "window")]
            await self.redis.eval(_SHIFT, len(keys), *keys, by, size)


@asynccontextmanager
async def circuit(place: str, url: Callable[[], str], **options: Any) -> AsyncIterator[Circuit]:
    """A circuit in "memory", or on "redis"; the server is asked for only then."""
    config = CircuitBreakerConfig(**options)
    if place == "memory":
        yield Circuit(None, config)
        return
    async with Redis.from_url(url()) as redis:
        yield Circuit(redis, config)
