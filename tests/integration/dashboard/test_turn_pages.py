"""The pages of turns: agents, what was asked of them, transcripts, sending and stopping."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, visitors
from support.turns_house import House

from afl.kernel.database import Transaction, connect
from afl.operations.turn import turns
from afl.operations.turn.turn_store import TurnStore
from afl.turns.cardbox.boxes import append
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard, tool_call_content
from afl.turns.statuses import CardType
from afl.turns.transitions import finish


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


@pytest.fixture
def project(house: Visitors, store_url: str) -> Iterator[House]:
    """Agents ada and bob in the project of the settings."""
    database = connect(store_url)
    try:
        yield House(database, house.settings.project)
    finally:
        database.close()


def test_before_anybody_defined_an_agent(house: Visitors) -> None:
    assert "No agent is defined yet" in house.viewer.read("/turns")


def test_agents_say_what_they_do_and_wait_for(house: Visitors, project: House) -> None:
    project.suspended("ada")
    project.enqueue("ada", boxes=None)
    page = house.viewer.read("/turns")
    assert "ada suspended" in page and "waits for search" in page
    assert "bob idle nothing" in page
    assert page.count("do it") == 2
    one = house.viewer.read("/agents/ada")
    assert "Queued 1" in one and "Waits for search" in one
    assert "no agent 'nobody'" in house.viewer.read("/agents/nobody", 404)
    assert "no turn and no agent 'nothing'" in house.viewer.read("/turns/nothing", 404)


def test_a_turn_is_a_transcript_with_its_calls_and_waits(house: Visitors, project: House) -> None:
    head, calls = project.suspended("ada")
    turn, box = head.active_agent_turn_id or "", head.output_box_id or ""

    def write(*cards: NewCard) -> None:
        def work(tx: Transaction) -> None:
            save_cards(tx, project.project, cards)
            append(tx, project.project, box, turn, [card.card_id for card in cards])

        project.write(work)

    call = NewCard(
        CardType.TOOL_CALL,
        tool_call_content("search", {"q": MARKUP}),
        "ada",
        agent_turn_id=turn,
        tool_call_id=calls[0].tool_call_id,
        function_name="search",
    )
    write(project.card(head, words=f"I look {MARKUP}"), call, project.result_card(head, calls[0]))
    page = house.viewer.open(f"/turns/{turn}")
    text_ = house.viewer.read(f"/turns/{turn}")
    assert "do it" in text_ and f"I look {MARKUP}" in text_
    assert "search" in text_ and MARKUP in text_ and "Answer" in text_
    assert "its time is up in" in text_
    assert f'data-live="turn:{turn}"' in page
    assert "Where it is" in text_ and "waits for 2 of 2 tool calls" in text_
    assert "I look" in house.viewer.read(f"/turns/{turn}/fragment/transcript")


def test_sending_makes_a_turn(house: Visitors, project: House) -> None:
    told = house.operator.act("/agents/bob/send", text=f"say {MARKUP}")
    assert (told.kind, told.text) == ("good", "Sent to bob.")
    page = house.viewer.read(told.url)
    assert f"say {MARKUP}" in page and "Turn of bob" in page
    latest = turns.turns(TurnStore(house.settings), "bob")[0]
    again = house.operator.act("/agents/bob/send", text="go on", after=latest.turn)
    assert f"say {MARKUP}" in house.viewer.read(again.url)
    assert house.operator.act("/agents/bob/send", text="  ").text == "There was no text to send."
    assert house.operator.send("/agents/nobody/send", text="x").status_code == 303


def test_stopping_a_turn(house: Visitors, project: House) -> None:
    head = project.running("ada")
    turn = head.active_agent_turn_id or ""
    assert "Stop" in house.operator.read(f"/turns/{turn}")
    told = house.operator.act(f"/turns/{turn}/stop")
    assert (told.url, told.kind) == (f"/turns/{turn}", "good")
    assert project.count("state.agent_inbox", "message_type = 'stop'") == 1
    now = project.head("ada")
    project.write(lambda tx: finish(tx, now, project.ending(now)))
    assert house.operator.act(f"/turns/{turn}/stop").text == "It had already ended."
    assert "Stop" not in house.operator.read(f"/turns/{turn}")
    assert house.operator.send("/turns/nothing/stop").status_code == 303


def test_a_viewer_sends_and_stops_nothing(house: Visitors, project: House) -> None:
    turn = project.running("ada").active_agent_turn_id or ""
    assert "Send" not in house.viewer.read("/agents/ada")
    assert "Stop" not in house.viewer.read(f"/turns/{turn}")
    assert house.viewer.send("/agents/ada/send", text="x").status_code == 403
    assert house.viewer.send(f"/turns/{turn}/stop").status_code == 403
    assert len(turns.turns(TurnStore(house.settings))) == 1


def test_many_turns_have_pages(house: Visitors, project: House) -> None:
    for _ in range(32):
        project.enqueue("ada")
    first, second = house.viewer.open("/turns"), house.viewer.open("/turns?skip=30")
    assert first.count("do it") == 30 and "/turns?skip=30" in first
    assert second.count("do it") == 2 and "/turns?skip=0" in second


def test_a_store_without_turns_says_so(mongo_database_url: str) -> None:
    with visitors(mongo_database_url) as house:
        assert "Turns cannot be reached" in house.viewer.read("/turns")
        assert "Schedules cannot be reached" in house.viewer.read("/schedules")
