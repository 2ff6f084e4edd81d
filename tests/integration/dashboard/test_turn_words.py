"""What an agent says while it says it, over a real NATS server."""

from __future__ import annotations

import asyncio
import json

import httpx2
from support.dashboards import served, settings_for
from support.turns_house import House

from afl.kernel.database import connect
from afl.turns.bus import open_bus
from afl.turns.message import Message
from afl.turns.protocol.subjects import chunk_subject

SECONDS = 60.0
PROJECT = "words"
WORDS = "so <b>be</b> it"


def chunk(turn: str, text: str) -> Message:
    payload = {"agent_turn_id": turn, "step_id": "s", "chunk_type": "content", "content": text, "index": 0}
    return Message(chunk_subject(PROJECT, "public", "ada"), {}, payload)


def test_the_words_of_one_turn_are_heard(store_url: str, nats_url: str) -> None:
    database = connect(store_url)
    turn = House(database, PROJECT).dispatched("ada").active_agent_turn_id or ""

    async def first_words(address: str) -> str:
        """Said again and again until they are heard: who does not listen yet misses them."""
        bus = open_bus(database, nats_url)
        await bus.start()

        async def say() -> None:
            while True:
                bus.publish(chunk("turn_other", "not these"))
                bus.publish(chunk(turn, WORDS))
                await asyncio.sleep(0.02)

        speaker = asyncio.create_task(say())
        url = f"{address}/turns/{turn}/words/ada"
        try:
            async with (
                asyncio.timeout(SECONDS),
                httpx2.AsyncClient(timeout=SECONDS) as client,
                client.stream("GET", url) as answer,
            ):
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        return str(json.loads(line.removeprefix("data: ")))
        finally:
            speaker.cancel()
            await asyncio.gather(speaker, return_exceptions=True)
            await bus.close()
        raise AssertionError("the stream ended without a word")

    with served(settings_for(store_url, bus=nats_url, project=PROJECT)) as address:
        assert asyncio.run(first_words(address)) == WORDS
        page = httpx2.get(f"{address}/turns/{turn}").text
        assert f'data-words-src="/turns/{turn}/words/ada"' in page
    database.close()


def test_without_a_bus_there_is_nothing_to_hear(store_url: str) -> None:
    database = connect(store_url)
    turn = House(database, PROJECT).dispatched("ada").active_agent_turn_id or ""
    with served(settings_for(store_url, project=PROJECT)) as address:
        assert "data-words-src" not in httpx2.get(f"{address}/turns/{turn}").text
        assert "data: " not in httpx2.get(f"{address}/turns/{turn}/words/ada").text
    database.close()
