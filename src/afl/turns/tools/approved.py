"""What cards say of approvals: the question in the card of a call, and its answer, the result card of the question.

The answer is a `tool.result` card under the id of the approval, so it reaches the turn like the result of any tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from afl.kernel import codec
from afl.turns.cardbox.cards import NewCard
from afl.turns.statuses import CardType
from afl.turns.tools.approval import AskedApproval
from afl.turns.tools.outcome import Outcome, failed

REJECTED = "rejected"
EXPIRED = "approval_timeout"
_KEY = "approval"


def call_metadata(asked: AskedApproval | None) -> dict[str, Any]:
    """The metadata of the card of a call."""
    return {} if asked is None else {_KEY: asdict(asked)}


def approval_of(card: NewCard) -> AskedApproval | None:
    """The question that the card of a call asks; None: nobody is asked."""
    found = card.metadata.get(_KEY)
    return AskedApproval(**found) if found else None


def asked_of(cards: Iterable[NewCard], tool_call_id: str) -> AskedApproval | None:
    """The question about a call; None: nobody was asked."""
    for card in cards:
        if card.type == CardType.TOOL_CALL and card.tool_call_id == tool_call_id and approval_of(card):
            return approval_of(card)
    return None


def answer_of(cards: Iterable[NewCard], asked: AskedApproval) -> Mapping[str, Any] | None:
    """The content of the answer; None: there is none."""
    for card in cards:
        if card.type == CardType.TOOL_RESULT and card.tool_call_id == asked.id:
            return card.content
    return None


def approved(arguments: Mapping[str, Any], by: str, *, edited: bool) -> Outcome:
    """The answer that lets a call be made."""
    return Outcome("success", {"approved": True, "by": by, "arguments": dict(arguments), "edited": edited})


def rejected(by: str, feedback: str, what: str = "this call") -> Outcome:
    """The answer that refuses a call."""
    return failed(REJECTED, f"{by} rejected {what}{f': {feedback}' if feedback else ''}")


def refusal_of(answer: Mapping[str, Any], asked: AskedApproval, what: str = "this call") -> Outcome | None:
    """What the model reads instead of a result; None: the call was approved."""
    if answer.get("status") == "success":
        return None
    if answer.get("status") == "timeout":
        why = f"nobody in {asked.group} approved {what} in {asked.seconds or 0:g} s"
        after = "terminate" if asked.expired == "fail" else "suspend"
        return failed(EXPIRED, why, after_execution=after)
    error = answer.get("error") or {}
    return failed(str(error.get("code", REJECTED)), str(error.get("message", "the call was rejected")))


def edits_of(cards: Sequence[NewCard]) -> dict[str, str]:
    """By the id of a call: what its model is told of arguments that a person changed."""
    answers = {card.tool_call_id: card.content for card in cards if card.type == CardType.TOOL_RESULT}
    found = {}
    for card in cards:
        asked = card.metadata.get(_KEY) if card.type == CardType.TOOL_CALL else None
        result = (answers.get(asked["id"]) or {}).get("result") if asked else None
        if isinstance(result, Mapping) and result.get("edited"):
            told = codec.encode(result["arguments"])
            found[card.tool_call_id] = f"({result['by']} changed the arguments to {told})"
    return found
