"""Parts that have a server of their own, watched: the page hears that something changed there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from redis.asyncio import Redis
from support.dashboard_pages import own_redis
from support.dashboards import served, settings_for
from support.principals import running_principal
from support.turns_house import House

from afl.coordination import AgentId, RedisMessageCoordinator
from afl.coordination.models import AgentMessage, MessageType
from afl.kernel.database import connect
from afl.operations.fleet import fleet
from afl.turns.transitions import finish

SECONDS = 60.0


class Heard:
    """What a browser hears of a topic, event by event."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._lines = answer.aiter_lines()

    async def event(self) -> str:
        async with asyncio.timeout(SECONDS):
            async for line in self._lines:
                if line.startswith("event: "):
                    return line.removeprefix("event: ")
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def watching(address: str, topic: str) -> AsyncIterator[Heard]:
    """From the moment on that the part was seen for the first time."""
    async with (
        httpx2.AsyncClient(timeout=SECONDS) as client,
        client.stream("GET", f"{address}/events?topic={topic}") as answer,
    ):
        received = Heard(answer)
        assert await received.event() == "ready"
        assert await received.event() == "change"
        yield received


def test_turns(store_url: str) -> None:
    database = connect(store_url)
    house = House(database, "main")
    head = house.running("ada")

    async def watch(address: str) -> None:
        async with watching(address, "turns") as every:
            house.enqueue("bob")
            assert await every.event() == "change"
        async with watching(address, f"turn:{head.active_agent_turn_id}") as one:
            house.write(lambda tx: finish(tx, head, house.ending(head)))
            assert await one.event() == "change"

    with served(settings_for(store_url)) as address:
        asyncio.run(watch(address))
    database.close()


def test_the_fleet(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def watch(address: str, run: str) -> None:
        async with watching(address, f"fleet-run:{run}") as one, watching(address, "fleet") as every:
            fleet.cancel(client, run)
            assert await one.event() == "change"
            assert await every.event() == "change"

    with running_principal(tmp_path) as principal:
        monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", str(principal.settings.principal_port))
        monkeypatch.setenv("CDKTR_APP_DATA_DIRECTORY", principal.settings.app_data_directory)
        with fleet.connected(principal.settings) as client, served(settings_for(store_url)) as address:
            asyncio.run(watch(address, fleet.start(client, "hello")))


def test_messages(store_url: str, redis_url: str) -> None:
    url = own_redis(redis_url)

    async def watch(address: str) -> None:
        async with watching(address, "messages") as received:
            await _send(url)
            assert await received.event() == "change"

    with served(settings_for(store_url, redis=url)) as address:
        asyncio.run(watch(address))


async def _send(url: str) -> None:
    agent = AgentId(type="reader")
    message = AgentMessage(
        message_id="message-1", sender=agent, recipient=agent, message_type=MessageType.EVENT
    )
    async with Redis.from_url(url) as redis, RedisMessageCoordinator(redis) as coordinator:
        await redis.flushdb()
        await coordinator.send_message(agent, agent, message)
