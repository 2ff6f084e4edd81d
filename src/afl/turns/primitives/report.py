"""report: the result of a tool call, or its timeout, for the turn that waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from afl.kernel.codec import decode
from afl.kernel.database import Row, Transaction
from afl.turns.context import TurnContext
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.intents import ReportIntent
from afl.turns.model import L0Result, accepted, rejected
from afl.turns.primitives.sources import Q, check_project, check_source
from afl.turns.protocol import headers as names
from afl.turns.protocol.events import wakeup_message
from afl.turns.protocol.headers import without_identity
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.payloads import check_report
from afl.turns.statuses import (
    CardType,
    EdgePhase,
    HeadStatus,
    InboxStatus,
    MessageType,
    Primitive,
    WakeupReason,
)
from afl.turns.store import inbox
from afl.turns.store.edges import Q as HEADS
from afl.turns.store.edges import edge_row


def report(tx: Transaction, context: TurnContext, intent: ReportIntent) -> L0Result:
    """Report a result to its turn. A duplicate, or one that is too late, is acknowledged and changes nothing."""
    try:
        payload = _checked_payload(context, intent)
        check_source(tx, context)
        about = tx.one(
            Q.about_report,
            project=intent.turn.project_id,
            correlation=intent.correlation_id,
            card=payload["tool_result_card_id"],
        )
        _check(context, intent, about)
    except ProtocolViolation as violation:
        return rejected(violation.code, str(violation))
    assert about is not None
    if about["reported"] is not None:
        return accepted({"inbox_id": about["reported"], "duplicate": True})
    if not _is_current(intent, about):
        return accepted({"late": True})
    return _write(tx, context, intent, payload, about)


def _write(
    tx: Transaction, context: TurnContext, intent: ReportIntent, payload: dict[str, Any], about: Row
) -> L0Result:
    turn, epoch = intent.turn, about["turn_epoch"]
    target = replace(
        context,
        channel_id=about["channel_id"],
        agent_id=turn.agent_id,
        agent_turn_id=turn.agent_turn_id,
        turn_epoch=epoch,
        step_id=about["step_id"],
        tool_call_id=intent.correlation_id,
        recursion_depth=about["recursion_depth"],
        traceparent=decode(about["context_headers"]).get(names.TRACE, context.traceparent),
    )
    inbox_id = new_id("inbox")
    row = inbox.message_row(
        project_id=turn.project_id,
        inbox_id=inbox_id,
        agent_id=turn.agent_id,
        worker_target=about["worker_target"],
        channel_id=about["channel_id"],
        message_type=intent.message_type,
        agent_turn_id=turn.agent_turn_id,
        turn_epoch=epoch,
        headers=target.headers(),
        payload=payload,
        status=InboxStatus.PENDING,
        correlation_id=intent.correlation_id,
    )
    if not inbox.put(tx, row):  # another transaction reported it meanwhile
        return accepted({"duplicate": True})
    tx.queue(HEADS.add_edge, **_edge(context, intent, about))
    call = {name: row[name] for name in ("project", "agent", "turn", "epoch")}
    tx.queue(HEADS.mark_received, **call, call=intent.correlation_id, card=payload["tool_result_card_id"])
    notify = wakeup_message(target, about["worker_target"], turn.agent_id, WakeupReason.REPORT, inbox_id)
    return accepted({"inbox_id": inbox_id, "turn_epoch": epoch}, signals=(notify,))


def _edge(context: TurnContext, intent: ReportIntent, about: Row) -> dict[str, Any]:
    return edge_row(
        context,
        Primitive.REPORT,
        EdgePhase.RESPONSE,
        intent.correlation_id,
        target_agent_id=intent.turn.agent_id,
        target_turn_id=intent.turn.agent_turn_id,
        depth=about["recursion_depth"],
        metadata={"message_type": str(intent.message_type)},
    )


def _checked_payload(context: TurnContext, intent: ReportIntent) -> dict[str, Any]:
    if intent.message_type not in (MessageType.TOOL_RESULT, MessageType.TIMEOUT):
        raise ProtocolViolation(f"{intent.message_type} is not a report; expected tool_result or timeout")
    if not intent.correlation_id:
        raise ProtocolViolation("a report names the tool call it answers in correlation_id")
    check_project(context, intent.turn.project_id)
    turn = intent.turn
    known = context.headers() | {
        names.AGENT: turn.agent_id,
        names.TURN: turn.agent_turn_id,
        names.TOOL_CALL: intent.correlation_id,
    }
    if turn.expected_epoch is not None:
        known[names.EPOCH] = str(turn.expected_epoch)
    return check_report(without_identity(intent.payload, known, f"report of {intent.correlation_id}"))


def _check(context: TurnContext, intent: ReportIntent, about: Row | None) -> None:
    call, turn = intent.correlation_id, intent.turn
    if about is None:
        raise ProtocolViolation(f"nobody asked for tool call {call!r} in {turn.project_id}")
    if (about["source_agent_id"], about["source_agent_turn_id"]) != (turn.agent_id, turn.agent_turn_id):
        raise ProtocolViolation(
            f"tool call {call!r} was asked for by turn {about['source_agent_turn_id']} of "
            f"{about['source_agent_id']}, not by {turn.agent_turn_id} of {turn.agent_id}",
            ErrorCode.UNKNOWN_TURN,
        )
    if about["recursion_depth"] != context.recursion_depth:
        raise ProtocolViolation(
            f"tool call {call!r} was asked for at depth {about['recursion_depth']}, "
            f"the report comes from depth {context.recursion_depth}"
        )
    _check_card(context, intent, about)


def _check_card(context: TurnContext, intent: ReportIntent, about: Row) -> None:
    card, call = intent.payload["tool_result_card_id"], intent.correlation_id
    if about["type"] is None:
        raise ProtocolViolation(f"report of {call!r}: there is no card {card}", ErrorCode.UNKNOWN_CARD)
    if about["type"] != CardType.TOOL_RESULT or about["tool_call_id"] != call:
        raise ProtocolViolation(
            f"report of {call!r}: card {card} is a {about['type']} of call {about['tool_call_id']!r}",
            ErrorCode.MALFORMED_CARD,
        )
    if about["author_id"] != context.agent_id and not context.agent_id.startswith("sys."):
        raise ProtocolViolation(
            f"report of {call!r}: card {card} is by {about['author_id']!r}, the report by {context.agent_id!r}",
            ErrorCode.FOREIGN_AUTHOR,
        )


def _is_current(intent: ReportIntent, about: Row) -> bool:
    expected = intent.turn.expected_epoch
    return about["status"] not in (None, HeadStatus.IDLE) and expected in (None, about["turn_epoch"])
