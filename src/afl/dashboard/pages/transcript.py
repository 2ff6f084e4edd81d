"""A turn's cards and steps as the entries of one transcript, in the order in which they happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from afl.operations.turn.turn_view import CardView, StepView, TurnView

THOUGHT, CALL, RESULT, DELIVERABLE = "agent.thought", "tool.call", "tool.result", "task.deliverable"
_WORDS = {
    "task.instruction": "asks",
    "task.result_fields": "asks for these fields",
    DELIVERABLE: "delivers",
    "agent.error": "failed",
    THOUGHT: "says",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: a card, or a call with the card that answers it. `step` heads those that follow it."""

    kind: str  # step, card or call
    who: str = ""
    word: str = ""
    card: CardView | None = None
    value: Any = None  # of a call's arguments, as data
    result: CardView | None = None
    answer: Any = None
    step: StepView | None = None


def transcript(view: TurnView) -> list[Entry]:
    """Everything, the context first; each step before its first card, each result with its call."""
    steps = {step.step: step for step in view.steps}
    results = {card.call: card for card in view.cards if card.type == RESULT and card.call}
    calls = {card.call for card in view.cards if card.type == CALL}
    delivered = {card.text for card in view.cards if card.type == DELIVERABLE}
    shown: set[str] = set()
    entries = [_card(card) for card in view.context]
    for card in view.cards:
        if card.step in steps and card.step not in shown and card.type != RESULT:
            shown.add(card.step)
            entries.append(Entry("step", step=steps[card.step]))
        if card.type == CALL:
            entries.append(_call(card, results.get(card.call)))
        elif card.type == RESULT and card.call in calls:
            continue  # it stands with its call
        elif card.type != THOUGHT or (card.text and card.text not in delivered):
            entries.append(_card(card))
    entries += [Entry("step", step=step) for step in view.steps if step.step not in shown]
    return entries


def _card(card: CardView) -> Entry:
    return Entry("card", card.author or card.tool, _WORDS.get(card.type, card.type), card)


def _call(card: CardView, result: CardView | None) -> Entry:
    answer = _data(result.text) if result is not None else None
    return Entry("call", card.author, "calls", card, _data(card.text), result, answer)


def _data(text: str) -> Any:
    """Text that is JSON as data, and other text as it is."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
