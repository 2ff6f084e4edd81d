"""The other parts through a client, on a store and over HTTP, synchronous and not: turns, the fleet, messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.clients import opened_client
from support.dashboard_pages import own_redis
from support.dashboards import served, settings_for
from support.eventually import eventually
from support.fleet_agents import running_agent
from support.principals import PrincipalProcess, running_principal

from afl.client.async_client import AsyncClient
from afl.coordination import AgentId, CircuitBreaker, CircuitBreakerConfig, RedisMessageCoordinator
from afl.coordination.models import AgentMessage, FailureType, MessageType
from afl.fleet.messages import Status
from afl.kernel.settings import Settings
from afl.models import ScriptedModel
from afl.operations.fleet import fleet
from afl.turns import open_agents

HELD = "name: Held\ntasks:\n  wait: {name: Wait, config: !Subprocess {cmd: sh, args: ['-c', 'sleep 600']}}\n"
CLERK, PACKER = AgentId(type="clerk", instance="1"), AgentId(type="packer")


class Place:
    """Clients of one kind."""

    def __init__(self, url: str, way: str) -> None:
        self.settings = settings_for(url)
        self._remote, self._synchronous = way == "http", way == "sync"

    @asynccontextmanager
    async def client(self, settings: Settings | None = None) -> AsyncIterator[AsyncClient]:
        with ExitStack() as stack:
            settings = settings or self.settings
            if self._remote:
                settings = replace(settings, server=stack.enter_context(served(settings)))
            async with opened_client(settings, synchronous=self._synchronous) as flow:
                yield flow


@pytest.fixture(params=["async", "sync", "http"])
def place(request: pytest.FixtureRequest, empty_sqlite_url: str) -> Place:
    return Place(empty_sqlite_url, request.param)


@pytest.fixture(scope="module")
def principal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrincipalProcess]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    hello = "name: Hello\ntasks:\n  a: {name: A, config: !Subprocess {cmd: echo, args: [hi]}}\n"
    with (
        running_principal(folder, {"hello": hello, "held": HELD}) as found,
        running_agent(found.settings, folder / "agent"),
    ):
        with fleet.connected(found.settings) as client:
            eventually(lambda: any(agent.alive for agent in fleet.agents(client)))
            eventually(lambda: {"hello", "held"} <= {each.id for each in fleet.workflows(client)})
        yield found


def test_the_fleet(place: Place, principal: PrincipalProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", str(principal.settings.principal_port))
    monkeypatch.setenv("CDKTR_APP_DATA_DIRECTORY", principal.settings.app_data_directory)

    async def story() -> None:
        async with place.client() as flow:
            assert {each.id for each in await flow.fleet.workflows()} == {"hello", "held"}
            assert [each.alive for each in await flow.fleet.agents()] == [True]
            done, held = await flow.fleet.start("hello"), await flow.fleet.start("held")
            while (await flow.fleet.show(done.run_id)).run.status is not Status.COMPLETED:
                await asyncio.sleep(0.02)
            while not (lines := (await flow.fleet.logs(done.run_id)).lines):
                await asyncio.sleep(0.02)
            assert [line.payload for line in lines] == ["STDOUT hi"]
            assert {each.run_id for each in await flow.fleet.runs(limit=2)} == {done.run_id, held.run_id}
            while (await flow.fleet.show(held.run_id)).run.status is not Status.RUNNING:
                await asyncio.sleep(0.02)
            await flow.fleet.cancel(held.run_id, "enough")
            while (await flow.fleet.show(held.run_id)).run.status is not Status.CANCELED:
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(story(), 60))


async def sow(url: str) -> None:
    """Two dead letters, and a circuit."""
    async with Redis.from_url(url) as redis:
        await redis.flushdb()
        async with RedisMessageCoordinator(redis) as coordinator:
            for number in range(2):
                letter = AgentMessage(
                    message_id=f"dead-{number}",
                    sender=CLERK,
                    recipient=PACKER,
                    message_type=MessageType.REQUEST,
                    payload={},
                )
                await coordinator.send_message(CLERK, PACKER, letter)
                received = await coordinator.receive(PACKER)
                assert received is not None
                await coordinator.nack(PACKER, received.token, FailureType.PERMANENT, "too large")

        async def fine() -> None:
            return

        await CircuitBreaker(redis, "scale", CircuitBreakerConfig()).call(fine)


def test_messages(place: Place, redis_url: str) -> None:
    url = own_redis(redis_url)

    async def story() -> None:
        await sow(url)
        async with place.client(replace(place.settings, redis=url)) as flow:
            assert [(each.agent, each.ready, each.dead) for each in await flow.messages.queues()] == [
                ("packer", 0, 2)
            ]
            letters = await flow.messages.dead_letters()
            assert [each.reason for each in letters] == ["permanent failure: too large"] * 2
            assert await flow.messages.agents() == []
            assert (await flow.messages.requeue("packer", [letters[0].dead_id])).letters == 1
            assert (await flow.messages.purge("packer")).letters == 1
            assert [(each.ready, each.dead) for each in await flow.messages.queues()] == [(1, 0)]
            assert [each.state for each in await flow.messages.breakers()] == ["closed"]
            assert (await flow.messages.change_breaker("scale", "open")).state == "open"

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_turn_that_nobody_takes_is_stopped(place: Place) -> None:
    async def story() -> None:
        async with open_agents(place.settings.store, model=ScriptedModel([])) as agents:
            await agents.define("clerk")
        async with place.client() as flow:
            turn = (await flow.turns.send("clerk", "Hello?")).agent_turn_id
            assert [each.turn for each in await flow.turns.list(agent="clerk")] == [turn]
            assert (await flow.turns.why(turn)).code == "turn-dispatched"
            await flow.turns.stop(turn, "nobody is there")
            assert (await flow.turns.show(turn)).turn.turn == turn
            with pytest.raises(TimeoutError):
                await flow.turns.result(turn, timeout=0)

    asyncio.run(asyncio.wait_for(story(), 60))
