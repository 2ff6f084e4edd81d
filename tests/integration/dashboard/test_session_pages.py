"""The pages of sessions: the list, one as a transcript, sending, forking and deleting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from support.dashboard_pages import MARKUP, Visitors, visitors
from support.dashboards import API

from afl.models import ScriptedModel
from afl.operations.turn import turns
from afl.operations.turn.turn_store import TurnStore
from afl.turns import open_agents

NAME = "team/a 42"
PLACE = f"/sessions/{quote(NAME)}"


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


@pytest.fixture
def turn(house: Visitors, store_url: str) -> str:
    """A session with one turn."""

    async def work() -> str:
        async with open_agents(
            store_url, model=ScriptedModel([f"fine {MARKUP}"]), project=house.settings.project
        ) as agents:
            await agents.define("guide")
            sent = await agents.session(NAME, "guide").send(f"hello {MARKUP}")
            await agents.wait(sent)
            return sent.agent_turn_id

    return asyncio.run(work())


def test_a_session_is_a_transcript(house: Visitors, turn: str) -> None:
    assert NAME in house.viewer.read("/sessions")
    page = house.viewer.read(PLACE)
    assert f"hello {MARKUP}" in page and f"fine {MARKUP}" in page and "with guide" in page
    assert "Delete" not in page and "Fork" not in page
    assert f"hello {MARKUP}" in house.viewer.read(f"{PLACE}?fragment=transcript")
    assert f'href="{PLACE}"' in house.viewer.open(f"/turns/{turn}")
    (listed,) = house.viewer.client.get(f"{API}/turns").json()
    assert house.viewer.client.get(f"{API}/turns/{turn}").json()["turn"] == listed
    assert house.viewer.client.get(f"{API}{PLACE}").json()["turns"][0]["turn"] == listed
    assert listed["asked"] == f"hello {MARKUP}"
    assert "no session 'nobody'" in house.viewer.read("/sessions/nobody", 404)


def test_a_session_goes_on_is_forked_and_deleted(house: Visitors, turn: str) -> None:
    operator = house.operator
    told = operator.act(PLACE, action="fork", after=turn)
    assert told.text == f"A fork of {NAME}." and f"a fork of {NAME}" in house.viewer.read("/sessions")
    assert operator.act(PLACE, action="fork", after="nothing").kind == "bad"
    assert operator.act(told.url, text=" ").text == "There was no text to send."
    assert operator.act(told.url, text="go on").text == "Sent."
    busy = operator.client.delete(f"{API}{told.url}")
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "state-error")
    assert "go on" in house.viewer.read(told.url)
    assert "is not over" in operator.act(told.url, action="delete").text
    assert operator.act(PLACE, action="delete").text == f"Session {NAME} is deleted."
    assert "no session" in house.viewer.read(PLACE, 404)


def test_the_agent_of_a_session_leads_to_it(house: Visitors, turn: str) -> None:
    actor = turns.turns(TurnStore(house.settings))[0].agent
    answer = house.viewer.client.get(f"/agents/{quote(actor)}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, PLACE)
    assert house.viewer.send(PLACE, action="delete").status_code == 403


def test_an_empty_list(house: Visitors) -> None:
    assert "No session yet" in house.viewer.read("/sessions")
