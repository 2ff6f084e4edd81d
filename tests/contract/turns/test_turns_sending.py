"""A turn that is sent where a worker has a free slot: it is entered by the transaction that sends it."""

from __future__ import annotations

from functools import partial

import pytest
from support.turns_house import House

from afl.turns.cardbox.cards import NewCard, text
from afl.turns.errors import ProtocolViolation
from afl.turns.model import FreeSlot, L0Result, Limits, TurnRef
from afl.turns.primitives.send import send
from afl.turns.primitives.takeover import takeover
from afl.turns.statuses import CardType, HeadStatus, InboxStatus, StepStatus
from afl.turns.store import inbox
from afl.turns.store.steps import read_steps
from afl.turns.worker.claims import claim
from afl.turns.worker.turn_state import read_boxes

SLOT = FreeSlot("w#1", ("other", "generic"), 60_000)


def sent(house: House, slot: FreeSlot | None = SLOT, agent: str = "ada") -> L0Result:
    cards = [
        NewCard(CardType.TASK_INSTRUCTION, text(words), "sys.test", metadata={"n": 1})
        for words in ("do", "it")
    ]
    return house.database.write(lambda tx: send(tx, house.user, agent, cards, Limits(), slot))


def test_a_turn_sent_to_a_free_slot_is_as_one_that_was_claimed(house: House) -> None:
    result = sent(house)
    assert result.entered is not None and result.accepted and not result.signals
    head, turn = house.head(), result.payload["agent_turn_id"]
    assert result.entered.head == head
    assert (head.status, head.owner, head.steps, head.active_agent_turn_id) == (
        HeadStatus.RUNNING,
        "w#1",
        1,
        turn,
    )
    assert (result.payload["turn_epoch"], result.payload["output_box_id"]) == (
        head.turn_epoch,
        head.output_box_id,
    )
    (step,) = house.read(partial(read_steps, project_id=house.project, turn_id=turn))
    assert (step.step_id, step.status, step.number) == (result.entered.step_id, StepStatus.STARTED, 1)
    row = house.read(partial(inbox.turn_row, project_id=house.project, turn_id=turn))
    assert row is not None and (row.status, row.turn_epoch) == (InboxStatus.CONSUMED, head.turn_epoch)
    assert row.archived_at is not None
    other = sent(house, None, "bob")
    claimed = house.database.write(
        lambda tx: claim(tx, targets=["generic"], owner="w#1", limit=9, lease_ms=60_000),
    )
    (entered,) = claimed.turns
    assert entered.head.active_agent_turn_id == other.payload["agent_turn_id"]
    same = ("status", "owner", "steps", "revision", "turn_epoch", "takeovers", "waiting_tool_count")
    assert [getattr(entered.head, name) for name in same] == [getattr(head, name) for name in same]


def test_its_cards_are_what_the_store_would_give(house: House) -> None:
    entered = sent(house).entered
    assert entered is not None
    stored = house.read(lambda tx: read_boxes(tx, entered.head))
    assert len(stored) == 2
    columns = set(stored[0].keys()) - {"created_at", "position"}
    for given, read in zip(entered.cards, stored, strict=True):
        assert {name: given[name] for name in columns} == {name: read[name] for name in columns}


def test_a_slot_for_others_leaves_it_to_be_claimed(house: House) -> None:
    result = sent(house, FreeSlot("w#1", ("other",), 60_000))
    assert result.entered is None and len(result.signals) == 1
    assert house.head().status is HeadStatus.DISPATCHED


def test_a_busy_agent_gets_no_second_turn(house: House) -> None:
    first = sent(house)
    second = sent(house)
    assert second.accepted and second.entered is None and not second.signals
    assert house.head().active_agent_turn_id == first.payload["agent_turn_id"]
    row = house.read(
        partial(inbox.turn_row, project_id=house.project, turn_id=second.payload["agent_turn_id"])
    )
    assert row is not None and row.status is InboxStatus.QUEUED


def test_what_is_refused_is_not_begun(house: House) -> None:
    before = house.dump()
    with pytest.raises(ProtocolViolation, match="not in the roster"):
        sent(house, agent="nobody")
    assert house.dump() == before


def test_a_turn_whose_worker_died_at_once_is_taken_over(house: House) -> None:
    entered = sent(house).entered
    assert entered is not None
    turn = TurnRef(house.project, "ada", entered.head.active_agent_turn_id or "")
    taken = house.write(lambda tx: takeover(tx, turn, "w2#1", dead=["w#1"]))
    assert taken.accepted
    head = house.head()
    assert (head.status, head.owner, head.takeovers) == (HeadStatus.RUNNING, "w2#1", 1)
    assert len(house.read(lambda tx: read_boxes(tx, head))) == 2
