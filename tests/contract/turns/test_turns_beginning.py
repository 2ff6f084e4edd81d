"""Claims that enter turns, turns that are sent with all they need, and turns in a name that nobody has in hand."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from support.turns_house import House

from afl.kernel.errors import FencedError
from afl.turns import transitions
from afl.turns.bus import LocalBus
from afl.turns.cardbox.boxes import read_box
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard, text
from afl.turns.context import TurnContext
from afl.turns.engine import L0Engine
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.intents import ToolWait
from afl.turns.model import Head, Limits, TurnRef
from afl.turns.primitives.send import send
from afl.turns.primitives.takeover import takeover
from afl.turns.statuses import CardType, HeadStatus, InboxStatus, StepStatus
from afl.turns.store import inbox
from afl.turns.store.heads import read_waiting
from afl.turns.store.steps import StepEnd, read_steps
from afl.turns.transitions import finish
from afl.turns.worker.claims import Claimed
from afl.turns.worker.claims import claim as claim_due
from afl.turns.worker.held_leases import HeldLeases


def claim(house: House, limit: int = 20) -> Claimed:
    return house.database.write(
        lambda tx: claim_due(tx, targets=["generic"], owner="w#1", limit=limit, lease_ms=60_000),
    )


def card(words: str = "do it") -> NewCard:
    return NewCard(CardType.TASK_INSTRUCTION, text(words), "sys.test")


def saved(house: House, head: Head, wait: ToolWait) -> str:
    """The result of a call, not reported yet."""
    return house.write(lambda tx: save_result(tx, house.project, house.result_card(head, wait))).card_id


def test_turns_are_entered_where_they_are_claimed(house: House) -> None:
    first, second = house.enqueue("ada"), house.enqueue("bob")
    claimed = claim(house)
    assert not claimed.rows and len(claimed) == 2
    assert [turn.head.active_agent_turn_id for turn in claimed.turns] == [
        result.payload["agent_turn_id"] for result in (first, second)
    ]
    for turn in claimed.turns:
        now = house.head(turn.head.agent_id)
        assert now == turn.head and (now.status, now.owner, now.steps) == (HeadStatus.RUNNING, "w#1", 1)
        assert [row["type"] for row in turn.cards] == [CardType.TASK_INSTRUCTION]
        name = now.active_agent_turn_id or ""
        steps = house.read(partial(read_steps, project_id=house.project, turn_id=name))
        assert [(step.step_id, step.status) for step in steps] == [(turn.step_id, StepStatus.STARTED)]
        row = house.read(partial(inbox.turn_row, project_id=house.project, turn_id=name))
        assert row is not None and row.status is InboxStatus.CONSUMED
    assert len({turn.step_id for turn in claimed.turns}) == 2
    assert len(claim(house)) == 0


def test_what_is_no_turn_is_claimed_only(house: House) -> None:
    head, waits = house.suspended()
    house.report(head, waits[0])
    claimed = claim(house)
    assert not claimed.turns
    assert [(row.status, row.claimed_by) for row in claimed.rows] == [(InboxStatus.PROCESSING, "w#1")]


def test_a_claim_is_bounded_and_in_the_order_of_time(house: House) -> None:
    turns = [house.enqueue(agent).payload["agent_turn_id"] for agent in ("bob", "ada")]
    assert [turn.head.active_agent_turn_id for turn in claim(house, 1).turns] == turns[:1]
    assert [turn.head.active_agent_turn_id for turn in claim(house, 1).turns] == turns[1:]


def test_a_message_of_a_turn_that_moved_on_is_no_turn(house: House) -> None:
    """As after a stop: the message is claimed, and whoever handles it finds the turn over."""
    house.enqueue("ada")
    head = house.head()
    house.write(lambda tx: transitions.stop_turn(tx, head, reason="no"))
    assert len(claim(house)) == 0 and house.head().status is HeadStatus.IDLE


def test_what_is_sent_is_there_with_its_cards(house: House) -> None:
    result = house.database.write(lambda tx: send(tx, house.user, "ada", [card("hello")], Limits()))
    assert result.accepted and len(result.signals) == 1
    head = house.head()
    assert (head.status, head.active_agent_turn_id) == (
        HeadStatus.DISPATCHED,
        result.payload["agent_turn_id"],
    )
    assert head.turn_epoch == result.payload["turn_epoch"] and head.profile_box_id == house.profile
    cards = house.read(lambda tx: read_box(tx, house.project, head.context_box_id or ""))
    assert [each.content["text"] for _, each in cards] == ["hello"]
    queued = house.database.write(lambda tx: send(tx, house.user, "ada", [card()], Limits()))
    assert queued.accepted and not queued.signals and "turn_epoch" not in queued.payload


def test_what_cannot_be_sent_leaves_no_trace(house: House) -> None:
    before = house.dump()
    with pytest.raises(ProtocolViolation, match="not in the roster") as refused:
        house.database.write(lambda tx: send(tx, house.user, "nobody", [card()], Limits()))
    assert refused.value.code is ErrorCode.UNKNOWN_AGENT
    stranger = TurnContext.root(house.project, "ada")
    with pytest.raises(ProtocolViolation, match="use enqueue"):
        house.database.write(lambda tx: send(tx, stranger, "bob", [card()], Limits()))
    assert house.dump() == before


def test_calls_sent_while_a_turn_runs_outlive_its_worker(house: House) -> None:
    running = house.running()
    waits = house.waits(2, subject=house.subject())
    noted = house.write(lambda tx: transitions.note(tx, running, waits=waits))
    assert (noted.status, noted.waiting_tool_count) == (HeadStatus.RUNNING, 0)
    assert house.count("state.outbox", "kind = 'cmd'") == 2
    first = saved(house, noted, waits[0])
    house.write(lambda tx: transitions.apply_early(tx, noted, inbox_id=None, **_named(waits[0], first)))
    assert house.head() == noted
    turn = TurnRef(house.project, "ada", noted.active_agent_turn_id or "")
    taken = house.write(lambda tx: takeover(tx, turn, "w2", dead=[noted.owner])).payload["head"]
    open_ = [wait.tool_call_id for wait in house.read(lambda tx: read_waiting(tx, taken)) if wait.is_open]
    assert open_ == [waits[1].tool_call_id]
    with pytest.raises(FencedError):
        house.write(lambda tx: transitions.apply_early(tx, noted, inbox_id=None, **_named(waits[1], first)))
    done = house.write(lambda tx: transitions.suspend(tx, taken, sent_before=1)).head
    assert (done.waiting_tool_count, done.status) == (1, HeadStatus.SUSPENDED)
    assert done.resume_deadline is not None and done.resume_deadline > done.updated_at
    assert house.report(done, waits[1]).accepted
    now = house.head()
    house.write(lambda tx: finish(tx, now, house.ending(now)))
    assert not house.count("state.turn_waiting_tools")


def test_a_result_is_applied_early_once(house: House) -> None:
    waits = house.waits(1)
    running = house.running()
    noted = house.write(lambda tx: transitions.note(tx, running, waits=waits))
    result = saved(house, noted, waits[0])
    house.write(lambda tx: transitions.apply_early(tx, noted, inbox_id=None, **_named(waits[0], result)))
    before = house.dump()
    with pytest.raises(FencedError):
        house.write(lambda tx: transitions.apply_early(tx, noted, inbox_id=None, **_named(waits[0], result)))
    assert house.dump() == before


def test_a_step_written_down_twice_keeps_what_it_cost(house: House) -> None:
    running = house.running()
    turn = running.active_agent_turn_id or ""
    step = house.read(lambda tx: read_steps(tx, house.project, turn))[0].step_id
    cost = {"llm_response_cost": 1}
    noted = StepEnd(step, StepStatus.TOOL_DISPATCHED, metadata=cost, tool_call_ids=["c1"])
    head = house.write(lambda tx: transitions.note(tx, running, step=noted))
    head = house.write(lambda tx: transitions.note(tx, head, step=StepEnd(step)))
    (row,) = house.read(lambda tx: read_steps(tx, house.project, turn))
    assert (row.status, row.metadata, row.tool_call_ids) == (StepStatus.COMPLETED, cost, ["c1"])
    assert row.ended_at is not None


def test_a_turn_that_has_just_ended_is_not_given_up(house: House) -> None:
    """It is not renewed any more, and still being told of."""
    head = house.running()

    async def main() -> None:
        engine = L0Engine(house.database, LocalBus(house.database))
        held, canceled = HeldLeases(engine, "nobody", 1), asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                canceled.set()

        held.run(head, work())
        await held.renew()
        await asyncio.sleep(0)
        assert held.free == 0 and not canceled.is_set()
        await held.renew()
        assert held.free == 1
        await canceled.wait()

    asyncio.run(main())


def _named(wait: ToolWait, card_id: str) -> dict[str, str]:
    return {"tool_call_id": wait.tool_call_id, "tool_result_card_id": card_id}
