"""What an agent says while it says it, in the transcript of its turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from support.dashboards import TOKENS, served, with_users
from support.turns_house import House

from afl.kernel.database import connect
from afl.operations.roles import Role
from afl.turns.model import Head
from afl.turns.store.live_text import LiveText, store_texts
from afl.turns.store.steps import read_steps
from afl.turns.transitions import finish

SECONDS = 60.0
PROJECT = "words"
SAID = "so <b>be</b> it"


@pytest.fixture
def house(store_url: str) -> Iterator[House]:
    with connect(store_url) as database:
        yield House(database, PROJECT)


def say(house: House, head: Head, text: str) -> None:
    turn = head.active_agent_turn_id or ""
    step = house.read(lambda tx: read_steps(tx, PROJECT, turn))[-1].step_id
    live = LiveText(PROJECT, head.agent_id, turn, step, head.turn_epoch, text)
    house.write(lambda tx: store_texts(tx, [live]))


async def events(answer: httpx2.Response) -> AsyncIterator[tuple[str, object]]:
    name = ""
    async with asyncio.timeout(SECONDS):
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def test_the_words_of_one_turn_are_heard_from_any_worker(store_url: str, house: House) -> None:
    head, other = house.running("ada"), house.running("bob")
    url = f"/turns/{head.active_agent_turn_id}/words/ada"

    async def story(address: str) -> None:
        headers = {"Authorization": f"Bearer {TOKENS[Role.VIEWER]}"}
        async with httpx2.AsyncClient(base_url=address, headers=headers, timeout=SECONDS) as client:
            page = await client.get(f"/turns/{head.active_agent_turn_id}")
            assert f'data-words-src="{url}"' in page.text
            say(house, other, "not these")
            say(house, head, SAID)
            async with client.stream("GET", url) as answer:
                heard = events(answer)
                assert await anext(heard) == ("words", SAID)
                say(house, head, SAID + "!")
                assert await anext(heard) == ("words", "!")
                house.write(lambda tx: finish(tx, head, house.ending(head)))
                assert await anext(heard) == ("over", {})

    with served(with_users(store_url, project=PROJECT)) as address:
        asyncio.run(story(address))


def test_they_end_with_the_session_of_whoever_listens(store_url: str, house: House) -> None:
    head = house.running("ada")
    say(house, head, SAID)

    async def story(address: str) -> None:
        async with httpx2.AsyncClient(base_url=address, timeout=SECONDS) as client:
            assert (await client.post("/login", data={"token": TOKENS[Role.VIEWER]})).status_code == 303
            async with client.stream("GET", f"/turns/{head.active_agent_turn_id}/words/ada") as answer:
                heard = events(answer)
                assert await anext(heard) == ("words", SAID)
                await client.post("/logout")
                assert await anext(heard) == ("leave", {})

    with served(with_users(store_url, project=PROJECT)) as address:
        asyncio.run(story(address))
