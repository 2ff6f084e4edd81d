"""What stands in a head and in a message: the fields that the protocol promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.turns_house import House

from afl.kernel.database import Transaction
from afl.turns.context import context_of_head
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import SpawnIntent
from afl.turns.model import L0Result
from afl.turns.primitives.enqueue import enqueue
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import InboxStatus, MessageType
from afl.turns.store import inbox
from afl.turns.transitions import enter_running, suspend


def test_a_lease_writes_trace_and_lineage(house: House) -> None:
    parent = house.running()
    step = new_id("step")
    source = context_of_head(parent, step)
    boxes = house.write(house.boxes)
    result = house.write(lambda tx: enqueue(tx, source, SpawnIntent("bob", boxes)))
    child = house.head("bob")
    assert child.active_agent_turn_id == result.payload["agent_turn_id"]
    assert (child.trace_id, child.parent_step_id) == (parent.trace_id, step)
    assert (child.active_recursion_depth, child.active_channel_id) == (1, "public")
    assert child.context_headers["CG-Parent-Turn-Id"] == parent.active_agent_turn_id


def test_a_suspended_turn_is_not_bound_to_one_call(house: House) -> None:
    head, waits = house.suspended()
    assert len(waits) == 2 and head.expecting_correlation_id is None


def test_an_action_that_suspends_is_resumed_by_its_wait_set(house: House) -> None:
    house.act()
    head = house.head()
    rows = house.write(
        lambda tx: inbox.claim_due(tx, targets=[], owner="w", project=house.project, agent="ada")
    )
    running = house.write(
        lambda tx: enter_running(
            tx, head, inbox_id=rows[0].inbox_id, owner="w", step_id=new_id("step"), lease_ms=60_000
        )
    )
    waits = house.waits(1)
    waiting = house.write(lambda tx: suspend(tx, running, waits=waits)).head
    assert (waiting.waiting_tool_count, waiting.expecting_correlation_id) == (
        1,
        "a1",
    )  # for its end to be told
    assert house.report(waiting, waits[0]).accepted


def test_a_tool_result_in_the_inbox_has_all_its_fields(house: House) -> None:
    head, waits = house.suspended()
    call = waits[0].tool_call_id
    house.report(head, waits[0])
    row = house.read(lambda tx: inbox.report_row(tx, house.project, call))
    assert row is not None
    assert (row.message_type, row.status, row.correlation_id) == (
        MessageType.TOOL_RESULT,
        InboxStatus.PENDING,
        call,
    )
    assert (row.agent_id, row.agent_turn_id, row.turn_epoch) == (
        "ada",
        head.active_agent_turn_id,
        head.turn_epoch,
    )
    assert row.payload.keys() == {"status", "after_execution", "tool_result_card_id"}


@pytest.mark.parametrize("which", ["missing", "another turn's", "another agent's", "none"])
def test_a_turn_is_entered_with_its_own_message_alone(house: House, which: str) -> None:
    head = house.dispatched()
    house.enqueue("ada")
    house.enqueue("bob")
    rows = house.read(lambda tx: inbox.rows_of_agent(tx, house.project, "ada"))
    queued = next(row.inbox_id for row in rows if row.inbox_id != head.active_inbox_id)
    bobs = house.head("bob").active_inbox_id or ""
    wrong = {"missing": "nope", "another turn's": queued, "another agent's": bobs, "none": ""}[which]
    before = house.dump()
    with pytest.raises(ProtocolViolation, match="message"):
        house.write(lambda tx: enter_running(tx, head, inbox_id=wrong, owner="w", step_id=new_id("step")))
    assert house.dump() == before


def test_a_worker_that_comes_with_a_turn_of_its_own_is_refused(house: House) -> None:
    """A turn id that L0 did not make begins nothing."""
    head = house.dispatched()

    def work(tx: Transaction) -> L0Result:
        forged = replace(house.user, agent_turn_id=new_id("turn"), turn_epoch=9)
        boxes = {"context_box_id": head.context_box_id or "", "output_box_id": head.output_box_id or ""}
        return enqueue(tx, forged, SpawnIntent("bob", {**boxes, "agent_turn_id": forged.agent_turn_id}))

    before = house.dump()
    assert not house.write(work).accepted
    assert house.dump() == before
