"""What a running turn does next, read off its cards alone: so whoever takes it over goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.statuses import CardType
from afl.turns.worker.resuming import Ending, ending_of


@dataclass(frozen=True, slots=True)
class Think:
    """Call the model."""


@dataclass(frozen=True, slots=True)
class Execute:
    """Call the tools that have not answered; their calls are on the record already."""

    step_id: str
    calls: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Conclude:
    """A result of the last step ends the turn."""

    step_id: str
    ending: Ending


Move = Think | Execute | Conclude


def next_move(cards: Sequence[NewCard], turn_id: str) -> Move:
    """Of the cards in the output box only those of this turn count."""
    own = [card for card in cards if card.agent_turn_id == turn_id]
    thought = last_call(own)
    if thought is None:
        return Think()
    results = {card.tool_call_id: card for card in own if card.type == CardType.TOOL_RESULT}
    unanswered = [call for call in thought.tool_calls if call["id"] not in results]
    if unanswered:
        return Execute(thought.step_id, unanswered)
    ending = ending_of([as_card(results[call["id"]]) for call in thought.tool_calls])
    return Think() if ending is None else Conclude(thought.step_id, ending)


def last_call(own: Sequence[NewCard]) -> NewCard | None:
    """The last thought of a turn, if it called tools and was not refused as an end since."""
    said = (CardType.AGENT_THOUGHT, CardType.MUST_END_WITH)
    last = next((card for card in reversed(own) if card.type in said), None)
    return last if last is not None and last.tool_calls else None


def as_card(card: NewCard) -> Card:
    """A card that was just written, as it will be read."""
    if isinstance(card, Card):
        return card
    return Card(**{name: getattr(card, name) for name in NewCard.__slots__})
