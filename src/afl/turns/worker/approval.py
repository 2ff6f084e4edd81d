"""Calls of a step that a person must approve: asked in the transaction that stores the calls, made after the answer.

No worker is held meanwhile: the turn is suspended on the question as on any tool. Which calls were asked about is in
their cards, so a worker that takes the turn over neither asks again nor makes a call that nobody approved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.kernel.ids import sortable_id
from afl.models import Tool
from afl.turns.cardbox.cards import NewCard
from afl.turns.intents import ToolWait
from afl.turns.model import Head
from afl.turns.store import approvals
from afl.turns.tools.approval import FOREVER, AskedApproval
from afl.turns.tools.approved import answer_of, asked_of, refusal_of
from afl.turns.tools.outcome import failed
from afl.turns.worker.toolkit import APPROVABLE, Call, Route, full_arguments, seen
from afl.turns.worker.turn_state import TurnState


def with_approval(call: Call) -> Call:
    """A new call; one that a person must approve has the question with it. The tool's own rule goes before checks.

    Nobody is asked about arguments that the function cannot be called with: the model is told.
    """
    rule, ask = (call.rule, call.ask) if call.route in APPROVABLE else (None, None)
    group = None if rule is None else rule.group(call.arguments)
    if rule is not None and group is not None:
        asked = AskedApproval(sortable_id(), group, rule.seconds, rule.expired)
    elif ask is not None:
        asked = AskedApproval(sortable_id(), ask.group, ask.seconds)
    else:
        return call
    try:
        if call.local is not None:
            call.local.python.arguments(call.arguments)
    except InputError as error:
        return replace(call, route=Route.REFUSED, refusal=failed("invalid_arguments", str(error)))
    return replace(call, route=Route.APPROVAL, asked=asked)


def ask_person(tx: Transaction, head: Head, call: Call, step_id: str) -> ToolWait:
    """Store the question about a call, and what the turn waits for."""
    asked = call.asked
    assert asked is not None
    tool = _asked_about(call)
    given = call.arguments if call.remote is None else full_arguments(call.remote, call.arguments)
    question = approvals.ToolApproval(
        asked.id,
        head.project_id,
        head.agent_id,
        head.active_agent_turn_id or "",
        step_id,
        call.tool_call_id,
        call.name,
        tool.description,
        tool.input_schema,
        given,
        asked.group,
    )
    approvals.ask(tx, question, None if asked.seconds is None else int(asked.seconds * 1000))
    return ToolWait(asked.id, call.name, step_id, int((asked.seconds or FOREVER) * 1000))


def _asked_about(call: Call) -> Tool:
    """What a person sees: the tool, and why a check asks."""
    tool = call.about or (call.local.tool if call.local is not None else None)
    if tool is None:
        assert call.remote is not None
        tool = seen(call.remote)
    if call.ask is None or not call.ask.reason:
        return tool
    return replace(tool, description=f"{call.ask.reason}\n\n{tool.description}".strip())


def open_calls(calls: Iterable[Mapping[str, Any]], state: TurnState) -> list[Mapping[str, Any]]:
    """Those of a step's calls that can be made now: neither sent, nor waiting for a person."""
    found = []
    for call in calls:
        asked = asked_of(state.own, call["id"])
        if (call["id"] if asked is None else asked.id) not in state.awaited:
            found.append(call)
    return found


def approved_call(call: Call, own: Sequence[NewCard]) -> Call:
    """A stored call as the answer to its question says: with the approved arguments, or refused."""
    asked = asked_of(own, call.tool_call_id)
    if asked is None or call.route not in APPROVABLE:
        return call
    answer = answer_of(own, asked)
    refusal = failed("approval_lost", "there is no answer") if answer is None else refusal_of(answer, asked)
    if refusal is not None or answer is None:
        return replace(call, route=Route.REFUSED, refusal=refusal)
    return replace(call, arguments=answer["result"]["arguments"], asked=asked)


def is_edited(call: Call, own: Sequence[NewCard]) -> bool:
    """Whether a call goes to another process with arguments that a person changed: it reads them in a card."""
    if call.route is not Route.COMMAND or call.asked is None:
        return False
    answer = answer_of(own, call.asked)
    return answer is not None and bool(answer["result"].get("edited"))
