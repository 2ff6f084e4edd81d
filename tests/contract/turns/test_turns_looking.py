"""What people are shown of turns: lists, transcripts, and the reason why one is stuck."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.turns_house import House

from afl.kernel.errors import InputError
from afl.kernel.presence.base import Life
from afl.operations.turn.turn_reasons import TurnReason, explain
from afl.operations.turn.turn_view import TurnView, view
from afl.operations.turn.turns import find_turn
from afl.turns.cardbox.cards import tool_call_content
from afl.turns.model import Head
from afl.turns.protocol.ids import new_id
from afl.turns.resources import get_agent, put_agent
from afl.turns.statuses import CardType, StepStatus, TaskStatus
from afl.turns.store.heads import read_waiting
from afl.turns.store.steps import StepEnd
from afl.turns.store.turn_queries import latest_turns, queued_counts, turn_at_a_glance, turns_named
from afl.turns.transitions import apply_result, finish, next_step, note


def reason(house: House, turn: str, life: Life = Life.ALIVE, later: int = 0) -> TurnReason:
    now = house.database.now() + later
    return house.read(lambda tx: explain(tx, house.project, turn, life, now))


def active(head: Head) -> str:
    return head.active_agent_turn_id or ""


def test_a_turn_that_is_dispatched_waits_for_a_worker(house: House) -> None:
    turn = active(house.dispatched())
    found = reason(house, turn)
    assert (found.code, found.moves, found.agent) == ("turn-dispatched", True, "ada")
    assert "no worker of generic" in found.sentence and "afl turns worker" in found.action
    assert not reason(house, turn, later=60_000).moves


def test_a_turn_that_runs_has_a_worker_or_had_one(house: House) -> None:
    turn = active(house.running())
    assert reason(house, turn).code == "turn-running"
    assert "step 1" in reason(house, turn).sentence
    assert reason(house, turn, Life.DEAD).code == "turn-worker-lost"
    assert "let its lease end" in reason(house, turn, Life.UNKNOWN, later=120_000).sentence


def test_a_suspended_turn_names_the_tools_it_waits_for(house: House) -> None:
    head, waits = house.suspended()
    found = reason(house, active(head))
    assert (found.code, "2 of 2 tool calls (search)" in found.sentence) == ("turn-waits-for-tool", True)
    assert "its time is up, which" in reason(house, active(head), later=120_000).sentence
    for wait in waits:
        house.report(head, wait)
    answered = reason(house, active(head))
    assert (answered.code, "tool_result to be read" in answered.sentence) == ("turn-answered", True)


def test_a_queued_turn_waits_for_the_one_before_it(house: House) -> None:
    first = active(house.running())
    house.enqueue()
    third = house.enqueue().payload["agent_turn_id"]
    found = reason(house, third)
    assert found.code == "turn-queued"
    assert f"is running in {first}, and 1 more before it" in found.sentence
    assert house.read(lambda tx: queued_counts(tx, house.project)) == {"ada": 2}


def test_a_queued_turn_of_an_agent_that_was_retired(house: House) -> None:
    house.running()
    queued = house.enqueue().payload["agent_turn_id"]
    agent = house.read(lambda tx: get_agent(tx, house.project, "ada"))
    assert agent is not None
    house.write(lambda tx: put_agent(tx, replace(agent, status="inactive")))
    found = reason(house, queued)
    assert (found.code, found.moves) == ("turn-agent-inactive", False)


def test_a_turn_that_is_over_says_how(house: House) -> None:
    head = house.running()
    ending = house.ending(head, TaskStatus.FAILED, error="it broke", error_code="broken")
    house.write(lambda tx: finish(tx, head, ending))
    found = reason(house, active(head))
    assert (found.code, found.sentence) == ("turn-failed", "it failed: it broke.")


def lived(house: House) -> tuple[Head, TurnView]:
    """A turn of two steps with a tool of elsewhere, to its end."""
    head, waits = house.suspended(waits=house.waits(1, subject=house.subject()))
    house.report(head, waits[0])
    card = house.result_card(head, waits[0])
    stored = house.read(lambda tx: read_waiting(tx, head))[0].tool_result_card_id or card.card_id
    applied = house.write(
        lambda tx: apply_result(
            tx, head, inbox_id=None, tool_call_id=waits[0].tool_call_id, tool_result_card_id=stored
        )
    )
    ending = house.ending(applied.head)
    house.write(lambda tx: finish(tx, applied.head, ending))
    return head, house.read(lambda tx: view(tx, house.project, active(head)))


def test_a_transcript_has_everything_in_order(house: House) -> None:
    head, found = lived(house)
    assert (found.turn.turn, found.turn.status, found.turn.over) == (active(head), "success", True)
    assert [(card.type, card.text) for card in found.context] == [("task.instruction", "do it")]
    assert [card.type for card in found.cards] == ["tool.result", "task.deliverable"]
    assert (found.cards[0].text, found.cards[0].status) == ('{"found":1}', "success")
    assert found.cards[1].text == "done"
    assert [step.number for step in found.steps] == [1]
    edges = [(edge.primitive, edge.phase) for edge in found.edges]
    assert edges == [("enqueue", "request"), ("tool_call", "request"), ("report", "response")]
    assert (found.depth, found.waits, found.cost) == (0, [], 0)


def test_a_transcript_of_a_turn_under_way(house: House) -> None:
    head = house.running()
    call = house.card(head, CardType.TOOL_CALL, tool_call_id="call_1", function_name="search")
    call = replace(call, content=tool_call_content("search", {"q": "x"}))
    usage = {"model": "m", "llm_usage": {"input_tokens": 7, "output_tokens": 3}, "llm_response_cost": 0.5}
    rows = house.read(lambda tx: view(tx, house.project, active(head))).steps
    end = StepEnd(rows[0].step, StepStatus.COMPLETED, metadata=usage)
    noted = house.write(lambda tx: note(tx, head, cards=[house.card(head, words="hm"), call]))
    house.write(lambda tx: next_step(tx, noted, step_id=new_id("step"), ended=end))
    found = house.read(lambda tx: view(tx, house.project, active(head)))
    assert (found.turn.status, found.turn.over, found.epoch) == ("running", False, 1)
    assert [card.text for card in found.cards] == ["hm", '{"q":"x"}']
    assert [(step.model, step.input_tokens, step.output_tokens) for step in found.steps] == [
        ("m", 7, 3),
        ("", 0, 0),
    ]
    assert found.cost == 0.5


def test_a_ui_action_shows_what_was_asked_for(house: House) -> None:
    house.act()
    turn = active(house.head())
    found = house.read(lambda tx: view(tx, house.project, turn))
    assert [(card.type, card.tool, card.text) for card in found.context] == [("ui_action", "search", "{}")]


def test_turns_are_found_by_the_beginning_of_their_id_or_their_agent(house: House) -> None:
    first = active(house.running())
    second = house.enqueue().payload["agent_turn_id"]
    shared = first[: next(n for n in range(99) if first[:n] != second[:n]) - 1]

    def find(name: str) -> str:
        return house.read(lambda tx: find_turn(tx, house.project, name)).agent_turn_id

    assert find(first) == find(first.removeprefix("turn_")) == find("ada") == first
    assert find(second) == find("") == second
    assert len(house.read(lambda tx: turns_named(tx, house.project, shared))) == 2
    for name, said in ((shared, "several turns"), ("nobody", "no turn and no agent"), ("bob", "no turn yet")):
        with pytest.raises(InputError, match=said):
            find(name)
    with pytest.raises(InputError, match="project p9 has had no turn"):
        house.read(lambda tx: find_turn(tx, "p9"))


def test_the_latest_turns_come_first(house: House) -> None:
    head = house.running()
    house.write(lambda tx: finish(tx, head, house.ending(head)))
    waiting = active(house.dispatched("bob"))
    queued = house.enqueue("bob").payload["agent_turn_id"]
    rows = house.read(lambda tx: latest_turns(tx, house.project))
    assert [(row.agent_turn_id, row.status) for row in rows] == [
        (queued, "queued"),
        (waiting, "dispatched"),
        (active(head), "success"),
    ]
    assert [row.agent_turn_id for row in house.read(lambda tx: latest_turns(tx, "p1", "ada"))] == [
        active(head)
    ]
    glance = house.read(lambda tx: turn_at_a_glance(tx, house.project, active(head)))
    assert glance is not None and glance.is_over and glance.told["status"] == "success"
