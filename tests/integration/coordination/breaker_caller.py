"""A process that calls through a breaker: prints what became of each call."""

from __future__ import annotations

import asyncio
import sys
from typing import NoReturn

from redis.asyncio import Redis

from afl.coordination.breaker_config import CircuitBreakerConfig
from afl.coordination.circuit_breaker import CircuitBreaker


async def broken() -> NoReturn:
    raise ConnectionError("it broke")


async def main(url: str, prefix: str, calls: int) -> None:
    config = CircuitBreakerConfig(failure_threshold=10_000)
    async with Redis.from_url(url) as redis:
        breaker = CircuitBreaker(redis, "shared", config, prefix)
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(calls):
            try:
                await breaker.call(broken)
            except ConnectionError:
                continue


async def hang(url: str, prefix: str) -> None:
    """Take a half-open place and keep it until somebody kills this process."""
    config = CircuitBreakerConfig(
        half_open_max_calls=1, success_threshold=1, timeout_seconds=0.001, slot_lease_seconds=0.3
    )
    async with Redis.from_url(url) as redis:

        async def held() -> None:
            print("held", flush=True)
            await asyncio.Event().wait()

        await CircuitBreaker(redis, "shared", config, prefix).call(held)


if __name__ == "__main__":
    if sys.argv[1] == "hang":
        asyncio.run(hang(sys.argv[2], sys.argv[3]))
    else:
        asyncio.run(main(sys.argv[2], sys.argv[3], int(sys.argv[4])))
