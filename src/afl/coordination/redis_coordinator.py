"""The coordinator on a Redis server."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.interfaces import MessageMetrics
from afl.coordination.keys import Keys
from afl.coordination.redis_broker import RedisBroker


class RedisMessageCoordinator(QueueCoordinator):
    """Redis-backed implementation of MessageCoordinator.

    `redis` is a client of redis.asyncio and stays the caller's to close. Keyword arguments are those of
    CoordinatorOptions.
    """

    def __init__(
        self, redis: Redis, key_prefix: str = "ao", metrics: MessageMetrics | None = None, **options: Any
    ) -> None:
        super().__init__(RedisBroker(redis, Keys.under(key_prefix)), metrics, options)
