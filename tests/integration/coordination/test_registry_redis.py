"""The registry on a real server: keys, repairs, round trips, and a server that goes away."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from support.counting import counting_client
from support.registries import Helper

from afl.coordination.errors import RegistryKeyError, RegistryUnavailable
from afl.coordination.models import AgentId, AgentMessage, MessageType
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.redis_registry import RedisAgentRegistry
from afl.devstack import Stack, temporary_stack

A = AgentId(type="helper", instance="a")


@asynccontextmanager
async def client(url: str) -> AsyncIterator[tuple[Redis, str]]:
    async with Redis.from_url(url, decode_responses=True) as redis:
        yield redis, f"t{uuid4().hex}"


def test_the_keys_are_those_of_the_document(redis_url: str) -> None:
    async def scene() -> None:
        async with client(redis_url) as (redis, prefix):
            registry = RedisAgentRegistry(redis, f"{prefix}:", heartbeat_ttl_s=30, dead_retention_s=60)
            await registry.aregister(Helper(instance="a", capabilities=["write"]))
            await registry.aregister(Helper())
            agent, capability = f"{prefix}:agents:helper:a", f"{prefix}:capabilities:helper:a"
            assert await redis.smembers(f"{prefix}:agents:index") == {
                agent,
                f"{prefix}:agents:helper:default",
            }
            assert await redis.smembers(f"{prefix}:capabilities:index") == {capability}
            stored = json.loads(await redis.get(agent) or "")
            assert stored["agent_id"] == {"type": "helper", "instance": "a"}
            assert isinstance(stored["last_heartbeat"], float)
            assert json.loads(await redis.get(capability) or "")[0]["name"] == "write"
            assert 80_000 < await redis.pttl(agent) <= 90_000
            await registry.close(deregister=True)
            left = [key async for key in redis.scan_iter(f"{prefix}:*")]
            assert left == [], "whoever leaves leaves nothing behind"

    asyncio.run(scene())


def test_a_heartbeat_repairs_indexes_and_records_in_one_round_trip(redis_url: str) -> None:
    async def scene() -> None:
        redis, counted = counting_client(redis_url)
        prefix = f"t{uuid4().hex}"
        async with redis:
            registry = RedisAgentRegistry(redis, prefix)
            for number in range(20):
                await registry.aregister(Helper(instance=str(number), capabilities=["write"]))
            await registry.beat()
            await redis.delete(
                f"{prefix}:agents:index", f"{prefix}:capabilities:index", f"{prefix}:agents:helper:7"
            )
            before = counted.sent
            await registry.beat()
            assert counted.sent - before == 1
            assert len(await registry.discover("helper", "write")) == 20

    asyncio.run(scene())


def test_a_thousand_agents_are_listed_in_at_most_three_round_trips(redis_url: str) -> None:
    async def scene() -> None:
        redis, counted = counting_client(redis_url)
        async with redis:
            registry = RedisAgentRegistry(redis, f"t{uuid4().hex}")
            agents = [Helper(instance=f"{number:04}", capabilities=["write"]) for number in range(1000)]
            await asyncio.gather(*(registry.aregister(agent) for agent in agents))
            await registry.list_registered()  # the server knows the scripts from then on
            before = counted.sent
            found = await registry.list_registered()
            assert counted.sent - before <= 3
            assert [each["agent_id"]["instance"] for each in found] == [
                agent.agent_id.instance for agent in agents
            ]

    asyncio.run(scene())


def test_index_entries_without_a_record_are_removed(redis_url: str) -> None:
    async def scene() -> None:
        async with client(redis_url) as (redis, prefix):
            registry = RedisAgentRegistry(redis, prefix)
            await registry.aregister(Helper(instance="a", capabilities=["write"]))
            await redis.delete(f"{prefix}:agents:helper:a")
            assert await registry.list_registered() == []
            assert await redis.exists(f"{prefix}:agents:index", f"{prefix}:capabilities:index") == 0

    asyncio.run(scene())


def test_what_cannot_be_read_is_left_out_and_logged(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with client(redis_url) as (redis, prefix):
            registry = RedisAgentRegistry(redis, prefix)
            await registry.aregister(Helper(instance="a"))
            await registry.aregister(Helper(instance="b"))
            await redis.set(f"{prefix}:agents:helper:a", "{no json")
            assert [each["agent_id"]["instance"] for each in await registry.list_registered()] == ["b"]
            await registry.aregister(Helper(instance="a"))
            assert len(await registry.list_registered()) == 2

    asyncio.run(scene())
    assert "record of agent helper:a cannot be read" in caplog.text
    assert "it starts without" in caplog.text


def test_a_key_of_another_kind_is_named(redis_url: str) -> None:
    async def scene() -> None:
        async with client(redis_url) as (redis, prefix):
            await redis.set(f"{prefix}:agents:index", "mine")
            registry = RedisAgentRegistry(redis, prefix)
            with pytest.raises(
                RegistryKeyError, match=f"{prefix}:agents:index' holds a string, expected a set"
            ):
                await registry.aregister(Helper(instance="a"))
            assert await redis.keys(f"{prefix}:*") == [f"{prefix}:agents:index"], "nothing was written"
            with pytest.raises(RegistryKeyError):
                await registry.list_registered()

    asyncio.run(scene())


def test_what_a_dead_agent_had_reserved_comes_back_by_somebody_elses_heartbeat(redis_url: str) -> None:
    async def scene() -> None:
        async with client(redis_url) as (redis, prefix):
            coordinator = RedisMessageCoordinator(redis, prefix)
            mortal = RedisAgentRegistry(redis, prefix, heartbeat_ttl_s=0.02)
            live = RedisAgentRegistry(redis, prefix, heartbeat_ttl_s=0.02)
            await mortal.aregister(Helper(instance="a"))
            message = AgentMessage(
                message_id="m-00001", sender=A, recipient=A, message_type=MessageType.REQUEST
            )
            await coordinator.send_message(A, A, message)
            assert await coordinator.receive(A, visibility_timeout=0.01) is not None
            while not await live.beat():
                await asyncio.sleep(0.01)
            statistics = await coordinator.statistics(A)
            assert (statistics.ready + statistics.delayed, statistics.in_flight) == (1, 0)

    asyncio.run(scene())


@pytest.fixture(scope="module")
def own_server() -> Iterator[Stack]:
    """A server of these tests alone: nobody else minds when it stops."""
    with temporary_stack() as stack:
        stack.up(["redis"])
        yield stack


def test_a_server_that_is_away_is_told_and_heartbeats_register_when_it_is_back(
    own_server: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scene() -> None:
        url = own_server.up(["redis"])["redis"]
        async with client(url) as (redis, prefix):
            registry = RedisAgentRegistry(redis, prefix, heartbeat_ttl_s=30, heartbeat_interval_s=0.02)
            await registry.aregister(Helper(instance="a"))
            own_server.down()
            registry.register(Helper(instance="b"))
            with pytest.raises(RegistryUnavailable, match="does not answer"):
                await registry.flush()
            with pytest.raises(RegistryUnavailable):
                await registry.list_registered()
            with pytest.raises(RegistryUnavailable):
                await registry.aregister(Helper(instance="c"))
            registry.start_heartbeats()
            while "a heartbeat failed" not in caplog.text:
                await asyncio.sleep(0.01)
            assert own_server.up(["redis"])["redis"] == url
            while "b" not in [each["agent_id"]["instance"] for each in await registry.list_registered()]:
                await asyncio.sleep(0.01)
            instances = [each["agent_id"]["instance"] for each in await registry.list_registered()]
            assert instances == ["a", "b"], "aregister said that it failed, so c is not registered later"
            await registry.close()

    asyncio.run(scene())


def test_an_agent_that_is_refused_later_holds_up_nobody(
    own_server: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        url = own_server.up(["redis"])["redis"]
        async with client(url) as (redis, prefix):
            registry = RedisAgentRegistry(redis, prefix)
            await registry.aregister(Helper(instance="a"))
            own_server.down()
            odd = Helper(instance="b")
            registry.register(odd)
            with pytest.raises(RegistryUnavailable):
                await registry.flush()
            with pytest.raises(RegistryUnavailable):
                async with registry.watch():
                    raise AssertionError("nobody can be watched")
            own_server.up(["redis"])
            odd.state = {"odd": object()}
            for _ in range(2):
                await registry.beat()
            assert [each["agent_id"]["instance"] for each in await registry.list_registered()] == ["a"]

    asyncio.run(scene())
    assert caplog.text.count("agent helper:b is not registered") == 1
