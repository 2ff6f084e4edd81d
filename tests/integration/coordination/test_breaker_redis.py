"""The breaker on a real server: several processes, wrong keys, and a server that goes away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from support.processes import python

from afl.coordination.breaker_config import CircuitBreakerConfig, CircuitBreakerState
from afl.coordination.circuit_breaker import CircuitBreaker
from afl.coordination.errors import (
    BreakerInputError,
    BreakerKeyError,
    BreakerUnavailable,
    CircuitBreakerOpenError,
)
from afl.coordination.local_breaker import LocalBreaker
from afl.coordination.redis_breaker import RedisBreaker, known_breakers
from afl.coordination.standby_breaker import StandbyBreaker
from afl.devstack import Stack, temporary_stack

CALLER = str(Path(__file__).with_name("breaker_caller.py"))


async def fine() -> str:
    return "fine"


async def broken() -> NoReturn:
    raise ConnectionError("it broke")


async def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ConnectionError):
            await breaker.call(broken)


def test_processes_share_one_count_and_lose_nothing(redis_url: str) -> None:
    prefix, calls, processes = f"t{uuid4().hex}", 150, 3
    with ExitStack() as stack:
        callers = [
            stack.enter_context(python(CALLER, "call", redis_url, prefix, str(calls)))
            for _ in range(processes)
        ]
        for caller in callers:
            assert caller.stdout is not None and caller.stdout.readline() == "ready\n"
        for caller in callers:
            assert caller.stdin is not None
            caller.stdin.write("go\n")
            caller.stdin.flush()
        assert [caller.wait(timeout=60) for caller in callers] == [0] * processes

    async def scene() -> None:
        async with Redis.from_url(redis_url) as redis:
            config = CircuitBreakerConfig(failure_threshold=calls * processes + 1)
            breaker = CircuitBreaker(redis, "shared", config, prefix)
            assert (await breaker.get_metrics())["failure_count"] == calls * processes
            await fail(breaker, 1)
            assert await breaker.get_state() is CircuitBreakerState.OPEN

    asyncio.run(scene())


def test_a_killed_process_does_not_keep_a_half_open_circuit_for_ever(redis_url: str) -> None:
    prefix = f"t{uuid4().hex}"
    config = CircuitBreakerConfig(
        failure_threshold=1,
        half_open_max_calls=1,
        success_threshold=1,
        timeout_seconds=0.001,
        slot_lease_seconds=0.3,
    )

    async def scene() -> None:
        async with Redis.from_url(redis_url) as redis:
            breaker = CircuitBreaker(redis, "shared", config, prefix)
            await fail(breaker, 1)
            with python(CALLER, "hang", redis_url, prefix) as holder:
                assert holder.stdout is not None and holder.stdout.readline() == "held\n"
                for _ in range(5):  # its lease is renewed while it lives
                    with pytest.raises(CircuitBreakerOpenError, match="max calls reached"):
                        await breaker.call(fine)
                    await asyncio.sleep(0.1)
                os.kill(holder.pid, signal.SIGKILL)
                holder.wait()
            while not await breaker.is_call_permitted():
                await asyncio.sleep(0.01)
            assert await breaker.call(fine) == "fine"
            assert await breaker.get_state() is CircuitBreakerState.CLOSED

    asyncio.run(scene())


def test_many_callers_find_as_many_half_open_places_as_there_are(redis_url: str) -> None:
    async def scene() -> None:
        async with Redis.from_url(redis_url) as redis:
            prefix = f"t{uuid4().hex}"
            config = CircuitBreakerConfig(
                failure_threshold=1, timeout_seconds=0.001, half_open_max_calls=3, success_threshold=3
            )
            await fail(CircuitBreaker(redis, "shared", config, prefix), 1)
            gate = asyncio.Event()
            begun = 0

            async def held() -> None:
                nonlocal begun
                begun += 1
                await gate.wait()

            breakers = [CircuitBreaker(redis, "shared", config, prefix) for _ in range(30)]
            while not await breakers[0].is_call_permitted():
                await asyncio.sleep(0)
            calls = [asyncio.create_task(breaker.call(held)) for breaker in breakers]
            while sum(call.done() for call in calls) < 27:
                await asyncio.wait(
                    [call for call in calls if not call.done()], return_when=asyncio.FIRST_COMPLETED
                )
            assert begun == 3
            gate.set()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(outcome is None for outcome in outcomes) == 3
            assert sum(isinstance(outcome, CircuitBreakerOpenError) for outcome in outcomes) == 27
            assert await breakers[0].get_state() is CircuitBreakerState.CLOSED

    asyncio.run(scene())


def test_names_are_known_and_any_name_will_do(redis_url: str) -> None:
    async def scene() -> None:
        async with Redis.from_url(redis_url, decode_responses=True) as redis:
            prefix = f"t{uuid4().hex}"
            assert await known_breakers(redis, prefix) == []
            for name in ("https://example.org:443/*", "b", "a"):
                await CircuitBreaker(redis, name, key_prefix=prefix).call(fine)
            assert await known_breakers(redis, prefix) == ["a", "b", "https://example.org:443/*"]
            with pytest.raises(BreakerInputError, match="printable"):
                CircuitBreaker(redis, "a\nb")

    asyncio.run(scene())


def test_a_forced_state_is_kept_for_ever_and_others_for_a_day(redis_url: str) -> None:
    async def scene() -> None:
        async with Redis.from_url(redis_url) as redis:
            prefix = f"t{uuid4().hex}"
            breaker = CircuitBreaker(redis, "x", CircuitBreakerConfig(failure_threshold=1), prefix)
            await fail(breaker, 1)
            assert 0 < await redis.pttl(f"{prefix}:cb:state:x") <= 86_400_000
            await breaker.force_open()
            assert await redis.pttl(f"{prefix}:cb:state:x") == -1

    asyncio.run(scene())


def test_a_key_of_another_kind_is_named(redis_url: str) -> None:
    async def scene() -> None:
        async with Redis.from_url(redis_url) as redis:
            prefix = f"t{uuid4().hex}"
            await redis.set(f"{prefix}:cb:state:x", "mine")
            with pytest.raises(BreakerKeyError, match="cb:state:x' holds a string, expected a hash"):
                await CircuitBreaker(redis, "x", key_prefix=prefix).call(fine)
            assert await redis.keys(f"{prefix}:*") == [f"{prefix}:cb:state:x".encode()], "nothing was written"

    asyncio.run(scene())


def test_a_breaker_of_which_nothing_is_left_is_forgotten(redis_url: str) -> None:
    async def scene() -> None:
        async with Redis.from_url(redis_url) as redis:
            prefix = f"t{uuid4().hex}"
            for name in ("used", "old"):
                await CircuitBreaker(redis, name, key_prefix=prefix).call(fine)
            assert await known_breakers(redis, prefix) == ["old", "used"]
            await redis.delete(f"{prefix}:cb:metrics:old", f"{prefix}:cb:state:old")  # as time does it
            assert await known_breakers(redis, prefix) == ["used"]
            assert await redis.smembers(f"{prefix}:cb:registry") == {b"used"}

    asyncio.run(scene())


def test_counts_end_by_themselves_whoever_began_them(redis_url: str) -> None:
    async def scene() -> None:
        async with Redis.from_url(redis_url) as redis:
            prefix = f"t{uuid4().hex}"
            breaker = CircuitBreaker(redis, "x", key_prefix=prefix)
            await breaker.force_open()
            assert await redis.pttl(f"{prefix}:cb:metrics:x") > 0
            await breaker.reset()
            await breaker.call(breaker.reset)  # gone while a call is under way
            assert await redis.pttl(f"{prefix}:cb:metrics:x") > 0

    asyncio.run(scene())


@pytest.fixture(scope="module")
def own_server() -> Iterator[Stack]:
    """A server of these tests alone: nobody else minds when it stops."""
    with temporary_stack() as stack:
        stack.up(["redis"])
        yield stack


def test_while_redis_is_away_the_process_goes_by_its_own(
    own_server: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        url = own_server.up(["redis"])["redis"]
        async with Redis.from_url(url) as redis:
            prefix = f"t{uuid4().hex}"
            config = CircuitBreakerConfig(failure_threshold=3)
            breaker = CircuitBreaker(redis, "x", config, prefix)
            await fail(breaker, 2)
            own_server.down()
            assert await breaker.call(fine) == "fine", "no call fails because Redis is away"
            await fail(breaker, 3)
            with pytest.raises(CircuitBreakerOpenError):
                await breaker.call(fine)
            found = await breaker.get_metrics()
            assert (found["state"], found["shared"]) == ("open", False)
            for order in (breaker.force_open, breaker.force_close, breaker.reset):
                with pytest.raises(BreakerUnavailable):
                    await order()
            assert own_server.up(["redis"])["redis"] == url
            while not (found := await breaker.get_metrics())["shared"]:
                await asyncio.sleep(0.01)
            assert (found["state"], found["failure_count"]) == ("closed", 2), "the shared state rules again"
            assert await breaker.call(fine) == "fine"

    asyncio.run(scene())
    assert caplog.text.count("Redis is unavailable, using local state") == 1


def test_a_circuit_that_was_open_stays_open_while_redis_is_away(own_server: Stack) -> None:
    async def scene() -> None:
        url = own_server.up(["redis"])["redis"]
        async with Redis.from_url(url) as redis:
            breaker = CircuitBreaker(redis, "y", CircuitBreakerConfig(failure_threshold=1), f"t{uuid4().hex}")
            await fail(breaker, 1)
            own_server.down()
            with pytest.raises(CircuitBreakerOpenError):
                await breaker.call(fine)
            own_server.up(["redis"])

    asyncio.run(scene())


def test_a_call_that_ends_while_redis_is_away_keeps_its_result(own_server: Stack) -> None:
    async def scene() -> None:
        url = own_server.up(["redis"])["redis"]
        async with Redis.from_url(url) as redis:
            breaker = CircuitBreaker(redis, "z", key_prefix=f"t{uuid4().hex}")

            async def stops_the_server() -> str:
                own_server.down()
                return "kept"

            assert await breaker.call(stops_the_server) == "kept"
            own_server.up(["redis"])

    asyncio.run(scene())


def test_a_server_that_hangs_is_away_too() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scene() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with Redis(host="127.0.0.1", port=port) as redis:
            config = CircuitBreakerConfig(failure_threshold=1)
            local = LocalBreaker(config)
            keeper = StandbyBreaker("x", RedisBreaker(redis, "x", config), local, patience_s=0.05)
            entered = await keeper.enter("call")
            assert entered.permitted and not entered.shared
            assert (await keeper.leave("call", entered, "failure")).state is CircuitBreakerState.OPEN
            with pytest.raises(BreakerUnavailable, match=r"did not answer within 0\.05 s"):
                await keeper.force("closed")
        server.close()
        await server.wait_closed()

    asyncio.run(scene())
