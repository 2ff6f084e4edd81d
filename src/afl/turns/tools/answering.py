"""A person's answer to the question about a tool call: it reaches the turn as a report, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel.codec import encode
from afl.kernel.database import Transaction
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import context_of_head
from afl.turns.intents import ReportIntent
from afl.turns.message import Message
from afl.turns.model import TurnRef
from afl.turns.primitives.report import report
from afl.turns.protocol.ids import new_span
from afl.turns.statuses import CardType
from afl.turns.store import heads
from afl.turns.store.approvals import Q, ToolApproval, approvals_named
from afl.turns.tools import approved
from afl.turns.tools.outcome import Outcome
from afl.turns.tools.questions import QUESTIONS

AUTHOR = "sys.approvals"


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """The question after an answer; `counts` is False when it was closed before. `signals` follow the commit."""

    approval: ToolApproval
    counts: bool
    signals: tuple[Message, ...] = ()


def approve_call(
    tx: Transaction, approval: ToolApproval, arguments: Mapping[str, Any], by: str
) -> AnsweredCall:
    """Let the call be made, with these arguments."""
    edited = dict(arguments) != dict(approval.arguments)
    return _answer(tx, approval, "approved", approved.approved(arguments, by, edited=edited), by, "")


def reject_call(tx: Transaction, approval: ToolApproval, feedback: str, by: str) -> AnsweredCall:
    """Refuse the call: the model reads the feedback as the error of its tool."""
    what = "this" if approval.tool_name in QUESTIONS else "this call"
    return _answer(tx, approval, "rejected", approved.rejected(by, feedback, what), by, feedback)


def _answer(
    tx: Transaction, approval: ToolApproval, status: str, outcome: Outcome, by: str, feedback: str
) -> AnsweredCall:
    """The head is locked first: the watchdog ends the time to answer under the same lock."""
    head = heads.read_head(tx, approval.project_id, approval.agent_id, lock=True)
    now = _read(tx, approval)
    if head is None or now.status != "open":
        return AnsweredCall(now, False)
    result = outcome.result
    arguments = None if result is None else encode(result["arguments"], what="the approved arguments")
    tx.run(Q.answer, approval=now.approval_id, status=status, by=by, feedback=feedback, answer=arguments)
    card = save_result(tx, now.project_id, _card(now, outcome))
    turn = TurnRef(now.project_id, now.agent_id, now.agent_turn_id)
    payload = {
        "status": card.content["status"],
        "after_execution": card.content["after_execution"],
        "tool_result_card_id": card.card_id,
    }
    context = context_of_head(head, now.step_id)
    context = replace(context, agent_id=AUTHOR, traceparent=new_span(context.traceparent))
    told = report(tx, context, ReportIntent(turn, payload, now.approval_id))
    assert told.accepted, told.error
    return AnsweredCall(_read(tx, approval), True, tuple(told.signals))


def _read(tx: Transaction, approval: ToolApproval) -> ToolApproval:
    (found,) = approvals_named(tx, approval.approval_id)
    return found


def _card(approval: ToolApproval, outcome: Outcome) -> NewCard:
    return NewCard(
        CardType.TOOL_RESULT,
        outcome.content(),
        AUTHOR,
        agent_turn_id=approval.agent_turn_id,
        step_id=approval.step_id,
        tool_call_id=approval.approval_id,
        function_name=approval.tool_name,
    )
