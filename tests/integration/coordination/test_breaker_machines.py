"""The breaker's machine exists twice, in Lua and in Python: whatever is done, both say the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from support.circuits import Circuit
from support.properties import tries

from afl.coordination.breaker_config import BreakerStatus, BreakerStore, CircuitBreakerConfig
from afl.coordination.local_breaker import LocalBreaker
from afl.coordination.redis_breaker import RedisBreaker

CALLS = 5
# Time passes in steps of 10 s and every limit lies between two steps: the milliseconds of the test do not matter.
CONSECUTIVE = CircuitBreakerConfig(
    failure_threshold=2,
    timeout_seconds=15,
    recovery_timeout_seconds=45,
    half_open_max_calls=3,
    success_threshold=2,
    slot_lease_seconds=25,
)
WINDOW = CircuitBreakerConfig(
    mode="window",  # type: ignore[arg-type]
    failure_threshold=3,
    failure_rate=0.4,
    window_seconds=36_000,
    timeout_seconds=15,
    recovery_timeout_seconds=45,
)
CALL = st.integers(0, CALLS - 1)
STEP = st.one_of(
    st.tuples(st.just("enter"), CALL),
    st.tuples(st.just("leave"), CALL, st.sampled_from(["success", "failure", "failure", "none"])),
    st.tuples(st.just("renew"), CALL),
    st.tuples(st.just("time"), st.integers(1, 6)),
    st.tuples(st.just("force"), st.sampled_from(["open", "closed"])),
    st.tuples(st.just("reset")),
)


class Side:
    """One machine, and the calls that are under way on it."""

    def __init__(self, keeper: BreakerStore) -> None:
        self.keeper = keeper
        self.entered: dict[int, BreakerStatus] = {}
        self.entries = 0

    async def do(self, step: tuple[Any, ...]) -> Any:
        verb, *rest = step
        if verb == "enter":
            return _shown(await self._enter(rest[0]))
        if verb == "leave" and rest[0] in self.entered:
            return _shown(await self.keeper.leave(str(rest[0]), self.entered.pop(rest[0]), rest[1]))
        if verb == "renew" and rest[0] in self.entered:
            return await self.keeper.renew(str(rest[0]), self.entered[rest[0]])
        if verb == "force":
            state: Literal["open", "closed"] = rest[0]
            return _shown(await self.keeper.force(state))
        if verb == "reset":
            return _shown(await self.keeper.reset())
        return None

    async def _enter(self, call: int) -> BreakerStatus:
        """A call that is under way cannot begin again; its number is free for another once it has left."""
        if call in self.entered:
            standing, _ = await self.keeper.look()
            return standing
        standing = await self.keeper.enter(str(call))
        if standing.permitted:
            self.entered[call] = standing
        return standing

    async def look(self) -> Any:
        standing, counts = await self.keeper.look()
        return _shown(standing), dict(counts.counts)


def _shown(standing: BreakerStatus) -> BreakerStatus:
    """What both must agree on: all but the times of their clocks."""
    return replace(
        standing, epoch=0, changed_at=0, now=0, retry_after=min(standing.retry_after, 0), shared=False
    )


async def compare(url: str, config: CircuitBreakerConfig, steps: list[tuple[Any, ...]]) -> None:
    async with Redis.from_url(url) as redis:
        here = Circuit(redis, config)
        now = 1_000_000
        local = Side(LocalBreaker(config, clock=lambda: now))
        shared = Side(RedisBreaker(redis, here.name, config, here.prefix))
        for step in steps:
            if step[0] == "time":
                now += step[1] * 10_000
                await here.pass_time(step[1] * 10)
            assert await local.do(step) == await shared.do(step), step
            assert await local.look() == await shared.look(), step


@tries(120)
@given(steps=st.lists(STEP, max_size=25))
def test_counting_in_a_row(redis_url: str, steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(compare(redis_url, CONSECUTIVE, steps))


@tries(120)
@given(steps=st.lists(STEP, max_size=25))
def test_counting_in_a_window(redis_url: str, steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(compare(redis_url, WINDOW, [step for step in steps if step[0] != "time"]))
