"""Calls of tools that a process answers which is neither a worker nor hears commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel.database import Transaction, queries
from afl.turns.cardbox.boxes import read_box
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import context_of_head
from afl.turns.intents import ReportIntent
from afl.turns.model import Head, L0Result, TurnRef
from afl.turns.primitives.report import report
from afl.turns.protocol.ids import new_span
from afl.turns.statuses import CardType
from afl.turns.store import heads
from afl.turns.tools.outcome import Outcome

Q = queries("afl.turns.store", "sql/open_calls")


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that a turn waits for, with its arguments as they stand in its newest card."""

    turn: TurnRef
    step_id: str
    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]


def open_calls(tx: Transaction, project_id: str, tools: Iterable[str], limit: int = 200) -> list[OpenCall]:
    """The calls of these tools that are not answered, those with the nearest deadline first."""
    rows = tx.all(Q.open_calls, project=project_id, tools=list(tools), limit=limit)
    found = []
    for row in rows:
        turn = TurnRef(project_id, row["agent_id"], row["agent_turn_id"])
        arguments = _arguments(tx, project_id, row["output_box_id"], row["tool_call_id"])
        if arguments is not None:  # else the turn waits for the approval of a call
            found.append(OpenCall(turn, row["step_id"], row["tool_call_id"], row["tool_name"], arguments))
    return found


def _arguments(tx: Transaction, project_id: str, box: str, call: str) -> Mapping[str, Any] | None:
    cards = [card for _, card in read_box(tx, project_id, box) if card.tool_call_id == call]
    named = [card for card in cards if card.type == CardType.TOOL_CALL]
    return named[-1].content["arguments"] if named else None


def answer_call(tx: Transaction, call: OpenCall, outcome: Outcome) -> L0Result | None:
    """Report the outcome of a call; the first one counts. None: its turn is over."""
    head = heads.read_head(tx, call.turn.project_id, call.turn.agent_id, lock=True)
    if head is None or head.active_agent_turn_id != call.turn.agent_turn_id:
        return None
    card = save_result(tx, head.project_id, _card(head, call, outcome))
    payload = {
        "status": card.content["status"],
        "after_execution": card.content["after_execution"],
        "tool_result_card_id": card.card_id,
    }
    context = context_of_head(head, call.step_id)
    context = replace(context, agent_id=card.author_id, traceparent=new_span(context.traceparent))
    return report(tx, context, ReportIntent(call.turn, payload, call.tool_call_id))


def _card(head: Head, call: OpenCall, outcome: Outcome) -> NewCard:
    return NewCard(
        CardType.TOOL_RESULT,
        outcome.content(),
        f"tool.{call.tool_name}",
        agent_turn_id=head.active_agent_turn_id or "",
        step_id=call.step_id,
        tool_call_id=call.tool_call_id,
        function_name=call.tool_name,
    )
