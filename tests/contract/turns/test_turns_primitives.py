"""report, command_intent, join, cancel, stop, takeover, wakeup: what they write, and what they do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.turns_house import OWNER, House

from afl.kernel.errors import FencedError
from afl.turns.bus.outbox import task_of_turn
from afl.turns.cardbox.boxes import read_box
from afl.turns.cardbox.card_store import save_cards, save_result
from afl.turns.cardbox.cards import Card, NewCard, text, tool_result_content
from afl.turns.context import TurnContext, context_of_head
from afl.turns.errors import ErrorCode
from afl.turns.intents import AddressIntent, CommandIntent, JoinIntent, ReportIntent, ToolWait
from afl.turns.model import Head, L0Result, Limits, TurnRef
from afl.turns.primitives.cancel import cancel
from afl.turns.primitives.command_intent import command_intent
from afl.turns.primitives.join import join
from afl.turns.primitives.report import report
from afl.turns.primitives.stop import stop
from afl.turns.primitives.takeover import takeover
from afl.turns.primitives.wakeup import wakeup
from afl.turns.statuses import (
    CardType,
    EdgePhase,
    HeadStatus,
    InboxStatus,
    MessageType,
    ResultStatus,
    WaitStatus,
    WakeupReason,
)
from afl.turns.store import inbox
from afl.turns.store.heads import read_waiting, renew
from afl.turns.store.steps import read_steps
from afl.turns.transitions import fail_turn, finish, note

# report ---------------------------------------------------------------------------------------------------


def test_a_report_reaches_the_turn_that_waits(house: House) -> None:
    head, waits = house.suspended()
    result = house.report(head, waits[0])
    row = house.read(lambda tx: inbox.report_row(tx, house.project, waits[0].tool_call_id))
    assert row is not None
    assert (row.message_type, row.status, row.agent_turn_id) == (
        MessageType.TOOL_RESULT,
        InboxStatus.PENDING,
        head.active_agent_turn_id,
    )
    assert row.payload.keys() == {"status", "after_execution", "tool_result_card_id"}
    states = {w.tool_call_id: w.wait_status for w in house.read(lambda tx: read_waiting(tx, head))}
    assert states[waits[0].tool_call_id] is WaitStatus.RECEIVED
    assert states[waits[1].tool_call_id] is WaitStatus.WAITING
    assert house.count("state.execution_edges", "primitive = 'report' and edge_phase = 'response'") == 1
    assert [signal.payload["reason"] for signal in result.signals] == ["report"]


@pytest.mark.parametrize("again", [MessageType.TOOL_RESULT, MessageType.TIMEOUT])
def test_a_duplicate_report_is_acknowledged_and_changes_nothing(house: House, again: MessageType) -> None:
    head, waits = house.suspended()
    house.report(head, waits[0])
    before = house.dump()
    result = house.report(head, waits[0], message_type=again)
    assert result.accepted and result.payload["duplicate"] and not result.signals
    assert house.dump() == before


def test_a_late_report_is_acknowledged_and_changes_nothing(house: House) -> None:
    head, waits = house.suspended()
    house.write(lambda tx: save_result(tx, house.project, house.result_card(head, waits[0])))
    house.write(lambda tx: fail_turn(tx, head, error="over", error_code="x"))
    before = house.dump()
    result = house.report(head, waits[0])
    assert result.accepted and result.payload == {"late": True}
    assert house.dump() == before


def test_a_report_of_another_epoch_is_late(house: House) -> None:
    head, waits = house.suspended()
    old = replace(head, turn_epoch=head.turn_epoch + 1)
    card = house.write(lambda tx: save_result(tx, house.project, house.result_card(head, waits[0])))
    before = house.dump()
    intent = ReportIntent(house.ref(old), _told(card), waits[0].tool_call_id)
    result = house.write(lambda tx: report(tx, house.tool_context(head), intent))
    assert result.payload == {"late": True}
    assert house.dump() == before


def _told(card: Card | NewCard, **more: Any) -> dict[str, Any]:
    return {"status": "success", "after_execution": "suspend", "tool_result_card_id": card.card_id} | more


Told = Callable[[House, Head, ToolWait, Card], tuple[TurnContext, ReportIntent]]


def _intent(house: House, head: Head, wait: ToolWait, card: Card, **more: Any) -> ReportIntent:
    return ReportIntent(house.ref(head), _told(card, **more), wait.tool_call_id)


def waits_of(house: House, head: Head) -> list[str]:
    return [wait.tool_call_id for wait in house.read(lambda tx: read_waiting(tx, head))]


def _text_card(house: House) -> NewCard:
    card = NewCard(CardType.TASK_INSTRUCTION, text("no result"), "tool.search")
    house.write(lambda tx: save_cards(tx, house.project, [card]))
    return card


BAD_REPORTS: dict[str, tuple[ErrorCode, Told]] = {
    "a missing card": (
        ErrorCode.UNKNOWN_CARD,
        lambda h, head, wait, card: (
            h.tool_context(head),
            _intent(h, head, wait, replace(card, card_id="card_x")),
        ),
    ),
    "a card that is no result": (
        ErrorCode.MALFORMED_CARD,
        lambda h, head, wait, card: (
            h.tool_context(head),
            ReportIntent(h.ref(head), _told(_text_card(h)), wait.tool_call_id),
        ),
    ),
    "the result of another call": (
        ErrorCode.MALFORMED_CARD,
        lambda h, head, wait, card: (
            h.tool_context(head),
            ReportIntent(h.ref(head), _told(card), waits_of(h, head)[1]),
        ),
    ),
    "a foreign author": (
        ErrorCode.FOREIGN_AUTHOR,
        lambda h, head, wait, card: (h.tool_context(head, "tool.other"), _intent(h, head, wait, card)),
    ),
    "a stranger": (
        ErrorCode.INVALID_SOURCE_ACTOR,
        lambda h, head, wait, card: (h.tool_context(head, "stranger"), _intent(h, head, wait, card)),
    ),
    "another project": (
        ErrorCode.INVALID_SOURCE_ACTOR,
        lambda h, head, wait, card: (TurnContext.root("p2", "tool.search"), _intent(h, head, wait, card)),
    ),
    "another turn": (
        ErrorCode.UNKNOWN_TURN,
        lambda h, head, wait, card: (
            h.tool_context(head),
            ReportIntent(TurnRef("p1", "ada", "turn_x"), _told(card), wait.tool_call_id),
        ),
    ),
    "another agent": (
        ErrorCode.UNKNOWN_TURN,
        lambda h, head, wait, card: (
            h.tool_context(head),
            ReportIntent(replace(h.ref(head), agent_id="bob"), _told(card), wait.tool_call_id),
        ),
    ),
    "another depth": (
        ErrorCode.PROTOCOL_VIOLATION,
        lambda h, head, wait, card: (
            replace(h.tool_context(head), recursion_depth=3),
            _intent(h, head, wait, card),
        ),
    ),
    "a call nobody made": (
        ErrorCode.PROTOCOL_VIOLATION,
        lambda h, head, wait, card: (
            h.tool_context(head),
            ReportIntent(h.ref(head), _told(card), "call_x"),
        ),
    ),
    "an inline result": (
        ErrorCode.FORBIDDEN_FIELD,
        lambda h, head, wait, card: (h.tool_context(head), _intent(h, head, wait, card, result={"a": 1})),
    ),
    "another epoch in the payload": (
        ErrorCode.FORBIDDEN_FIELD,
        lambda h, head, wait, card: (h.tool_context(head), _intent(h, head, wait, card, turn_epoch=99)),
    ),
    "a status that is none": (
        ErrorCode.MALFORMED_PAYLOAD,
        lambda h, head, wait, card: (h.tool_context(head), _intent(h, head, wait, card, status="fine")),
    ),
    "a status that is a list": (
        ErrorCode.MALFORMED_PAYLOAD,
        lambda h, head, wait, card: (h.tool_context(head), _intent(h, head, wait, card, status=["success"])),
    ),
    "after_execution that is none": (
        ErrorCode.MALFORMED_PAYLOAD,
        lambda h, head, wait, card: (
            h.tool_context(head),
            _intent(h, head, wait, card, after_execution="go"),
        ),
    ),
}


@pytest.mark.parametrize("case", BAD_REPORTS)
def test_a_bad_report_leaves_no_trace(house: House, case: str) -> None:
    code, make = BAD_REPORTS[case]
    head, waits = house.suspended()
    card = house.write(lambda tx: save_result(tx, house.project, house.result_card(head, waits[0])))
    context, intent = make(house, head, waits[0], card)
    before = house.dump()
    result = house.write(lambda tx: report(tx, context, intent))
    assert (result.status, result.error_code) == (ResultStatus.REJECTED, code)
    assert house.dump() == before


def test_the_first_result_of_a_call_is_its_result(house: House) -> None:
    head, waits = house.suspended()
    first = house.write(lambda tx: save_result(tx, house.project, house.result_card(head, waits[0])))
    late = replace(
        house.result_card(head, waits[0], "sys.watchdog"),
        content=tool_result_content("timeout", error={"code": "tool_timeout", "message": "late"}),
    )
    kept = house.write(lambda tx: save_result(tx, house.project, late))
    assert kept == first
    told = ReportIntent(house.ref(head), _told(kept), waits[0].tool_call_id, MessageType.TIMEOUT)
    result = house.write(lambda tx: report(tx, house.tool_context(head, "sys.watchdog"), told))
    assert result.accepted, "the system may report what a tool saved before it died"


# command_intent, join ----------------------------------------------------------------------------------------


def _command(house: House, **more: Any) -> CommandIntent:
    payload = {"tool_name": "search", "after_execution": "suspend", "tool_call_card_id": "card_1"}
    return CommandIntent(house.subject(), payload | more, "call_1")


def test_a_command_is_stored_once(house: House) -> None:
    context = context_of_head(house.running(), "step_1")
    result = house.write(lambda tx: command_intent(tx, context, _command(house)))
    assert (result.accepted, result.stored) == (True, 1)
    before = house.dump()
    again = house.write(lambda tx: command_intent(tx, context, _command(house)))
    assert again.accepted and again.payload["idempotent_hit"] and not again.stored
    assert house.dump() == before


@pytest.mark.parametrize(
    "subject",
    [
        "cg.v1r4.p1.public.cmd.agent.generic.wakeup",
        "cg.v1r4.p1.public.evt.agent.ada.task",
        "cg.v1r4.p2.public.cmd.tool.search.execute",
        "cg.v1r4.p1.other.cmd.tool.search.execute",
        "cg.v1r4.p1.public.cmd.tool",
        "cg.v1r4.p1.public.cmd.tool.*.execute",
    ],
)
def test_a_command_to_elsewhere_is_refused(house: House, subject: str) -> None:
    context = context_of_head(house.running())
    before = house.dump()
    intent = replace(_command(house), subject=subject)
    assert house.write(lambda tx: command_intent(tx, context, intent)).status is ResultStatus.REJECTED
    assert house.dump() == before


@pytest.mark.parametrize("extra", [{"args": {}}, {"result": 1}, {"recursion_depth": 5}, {"agent_id": "bob"}])
def test_a_command_says_what_to_call_and_no_more(house: House, extra: dict[str, Any]) -> None:
    context = context_of_head(house.running())
    before = house.dump()
    result = house.write(lambda tx: command_intent(tx, context, _command(house, **extra)))
    assert result.error_code is ErrorCode.FORBIDDEN_FIELD
    assert house.dump() == before


def test_a_join_is_asked_for_and_answered_at_the_same_depth(house: House) -> None:
    context = context_of_head(house.running())
    ask, answer = (JoinIntent("batch_1", phase) for phase in EdgePhase)
    before = house.dump()
    early = house.write(lambda tx: join(tx, context, answer))
    assert early.error_code is ErrorCode.UNKNOWN_TURN
    assert house.dump() == before
    assert house.write(lambda tx: join(tx, context, ask)).payload["duplicate"] is False
    deeper = replace(context, recursion_depth=4)
    assert house.write(lambda tx: join(tx, deeper, answer)).status is ResultStatus.REJECTED
    assert house.write(lambda tx: join(tx, context, answer)).accepted
    assert house.write(lambda tx: join(tx, context, answer)).payload["duplicate"] is True
    assert house.count("state.execution_edges", "primitive = 'join'") == 2


# cancel, stop ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [None, "batch_7"])
def test_a_queued_turn_is_canceled_with_a_deliverable(house: House, correlation: str | None) -> None:
    house.dispatched()
    queued = house.enqueue(correlation_id=correlation)
    turn = TurnRef(house.project, "ada", queued.payload["agent_turn_id"])
    result = house.write(lambda tx: cancel(tx, house.user, turn, "no longer wanted"))
    assert (result.accepted, result.stored) == (True, 1)
    task = house.read(lambda tx: task_of_turn(tx, house.project, turn.agent_turn_id))
    assert task is not None and task.message.payload["status"] == "canceled"
    box, card = task.message.payload["output_box_id"], task.message.payload["deliverable_card_id"]
    cards = [card.card_id for _, card in house.read(lambda tx: read_box(tx, house.project, box))]
    assert card in cards
    before = house.dump()
    assert house.write(lambda tx: cancel(tx, house.user, turn)).payload["duplicate"]
    assert house.dump() == before
    head = house.head()
    house.write(lambda tx: finish(tx, head, house.ending(head)))
    assert house.head().status is HeadStatus.IDLE


def test_a_canceled_turn_does_not_write_into_a_box_that_is_held(house: House) -> None:
    head = house.running()
    boxes = house.write(house.boxes) | {"output_box_id": head.output_box_id or ""}
    queued = house.enqueue(boxes=boxes)
    turn = TurnRef(house.project, "ada", queued.payload["agent_turn_id"])
    result = house.write(lambda tx: cancel(tx, house.user, turn))
    assert result.payload["output_box_id"] != head.output_box_id
    assert house.write(lambda tx: note(tx, head, cards=[house.card(head)])).revision == head.revision + 1


def test_a_turn_that_has_begun_is_not_canceled(house: House) -> None:
    head = house.running()
    before = house.dump()
    assert house.write(lambda tx: cancel(tx, house.user, house.ref(head))).error_code is ErrorCode.STALE_TURN
    nobody = TurnRef(house.project, "ada", "turn_x")
    assert house.write(lambda tx: cancel(tx, house.user, nobody)).error_code is ErrorCode.UNKNOWN_TURN
    assert house.dump() == before


def _stop(house: House, turn: TurnRef, **payload: Any) -> L0Result:
    intent = AddressIntent(turn, MessageType.STOP, payload or {"reason": "enough"})
    return house.write(lambda tx: stop(tx, house.user, intent))


@pytest.mark.parametrize("where", ["dispatched", "running", "suspended"])
def test_stopping_an_active_turn_sends_it_one_message(house: House, where: str) -> None:
    head = {"dispatched": house.dispatched, "running": house.running}.get(
        where, lambda: house.suspended()[0]
    )()
    result = _stop(house, house.ref(head))
    assert result.accepted and len(result.signals) == 1
    before = house.dump()
    assert _stop(house, house.ref(head)).payload["duplicate"]
    assert house.dump() == before
    assert house.count("state.agent_inbox", "message_type = 'stop' and status = 'pending'") == 1


def test_stopping_a_queued_turn_cancels_it_and_a_finished_one_is_late(house: House) -> None:
    head = house.running()
    queued = TurnRef(house.project, "ada", house.enqueue().payload["agent_turn_id"])
    assert _stop(house, queued).stored == 1
    house.write(lambda tx: finish(tx, head, house.ending(head)))
    before = house.dump()
    assert _stop(house, house.ref(head)).payload["late"]
    assert _stop(house, TurnRef(house.project, "ada", "turn_x")).error_code is ErrorCode.UNKNOWN_TURN
    assert house.dump() == before


def test_a_stop_that_repeats_its_address_must_agree(house: House) -> None:
    head = house.running()
    turn = house.ref(head)
    before = house.dump()
    assert _stop(house, turn, agent_id="bob").error_code is ErrorCode.FORBIDDEN_FIELD
    assert _stop(house, turn, force=True).error_code is ErrorCode.FORBIDDEN_FIELD
    assert house.dump() == before
    agreeing = {"agent_id": "ada", "agent_turn_id": turn.agent_turn_id, "turn_epoch": head.turn_epoch}
    assert _stop(house, turn, **agreeing).accepted


# takeover, leases, wakeup --------------------------------------------------------------------------------------


def test_a_turn_of_a_dead_worker_goes_on_with_another_one(house: House) -> None:
    head = house.running()
    held = house.write(lambda tx: takeover(tx, house.ref(head), "worker-2"))
    assert held.status is ResultStatus.BUSY
    taken = house.write(lambda tx: takeover(tx, house.ref(head), "worker-2", dead=[OWNER]))
    now: Head = taken.payload["head"]
    assert (now.status, now.turn_epoch, now.owner) == (HeadStatus.RUNNING, head.turn_epoch + 1, "worker-2")
    assert now.active_agent_turn_id == head.active_agent_turn_id
    before = house.dump()
    with pytest.raises(FencedError):
        house.write(lambda tx: finish(tx, head, house.ending(head)))
    assert house.dump() == before
    steps = house.read(lambda tx: read_steps(tx, house.project, head.active_agent_turn_id or ""))
    assert [(step.status, step.ended_at is not None) for step in steps] == [("failed", True)]
    house.write(lambda tx: finish(tx, now, house.ending(now)))
    assert house.head().status is HeadStatus.IDLE


def test_a_lease_that_ended_may_be_taken_and_one_that_was_renewed_may_not(house: House) -> None:
    head = house.running(lease_ms=-1)
    assert house.write(lambda tx: renew(tx, "somebody", 60_000)) == []
    mine = house.write(lambda tx: renew(tx, OWNER, 60_000))
    assert mine == [(house.project, "ada", head.active_agent_turn_id, head.turn_epoch)]
    assert house.head().revision == head.revision
    assert house.write(lambda tx: takeover(tx, house.ref(head), "worker-2")).status is ResultStatus.BUSY
    other = house.running("bob", lease_ms=-1)
    assert house.write(lambda tx: takeover(tx, house.ref(other), "worker-2")).accepted


def _take(house: House, head: Head, owner: str, limits: Limits) -> L0Result:
    return house.write(lambda tx: takeover(tx, house.ref(head), owner, dead=[head.owner], limits=limits))


def test_a_turn_that_kills_its_workers_fails(house: House) -> None:
    head = house.running()
    limits = Limits(max_takeovers=2)
    for owner in ("w1", "w2"):
        assert _take(house, house.head(), owner, limits).accepted
    now = house.head()
    result = _take(house, now, "w9", limits)
    assert result.payload["failed"] and result.stored == 1
    task = house.read(lambda tx: task_of_turn(tx, house.project, head.active_agent_turn_id or ""))
    assert task is not None and task.message.payload["error_code"] == "takeovers_exceeded"


@pytest.mark.parametrize("stale", ["epoch", "turn", "dispatched", "suspended", "idle"])
def test_a_takeover_of_what_moved_on_has_no_side_effect(house: House, stale: str) -> None:
    if stale == "suspended":
        turn = house.ref(house.suspended()[0])
    elif stale == "dispatched":
        turn = house.ref(house.dispatched())
    else:
        turn = house.ref(head := house.running())
        changes: dict[str, Any] = {"epoch": {"expected_epoch": 9}, "turn": {"agent_turn_id": "turn_x"}}
        turn = replace(turn, **changes.get(stale, {}))
        if stale == "idle":
            house.write(lambda tx: finish(tx, head, house.ending(head)))
    before = house.dump()
    result = house.write(lambda tx: takeover(tx, turn, "worker-2", dead=[OWNER]))
    assert result.error_code is ErrorCode.STALE_TURN
    assert house.dump() == before


def test_a_wakeup_rings_for_the_target_of_the_agent(house: House) -> None:
    house.hire("eve", "gpu_workers")
    result = house.write(lambda tx: wakeup(tx, house.project, "eve", WakeupReason.WATCHDOG_PENDING))
    (notify,) = result.signals
    assert notify.subject == "cg.v1r4.p1.public.cmd.agent.gpu_workers.wakeup"
    assert (notify.payload["reason"], notify.headers["CG-Agent-Id"]) == ("watchdog_pending_inbox", "eve")
    nobody = house.write(lambda tx: wakeup(tx, house.project, "nobody"))
    assert nobody.error_code is ErrorCode.UNKNOWN_AGENT
