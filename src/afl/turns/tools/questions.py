"""Questions of checks, in cards: about what an agent was asked, and about what it is going to deliver.

A question is a `sys.guardrail` card, which no model reads. The turn waits for its answer as for the result of a tool.
"""

from __future__ import annotations

from collections.abc import Iterable

from afl.turns.cardbox.cards import NewCard
from afl.turns.statuses import CardType
from afl.turns.tools.approved import approval_of

INPUT = "guardrail:input"
OUTPUT = "guardrail:output"
QUESTIONS = (INPUT, OUTPUT)  # in place of the name of a tool, which has no colon
SETTLES = "settles"  # in the metadata of a card: the question whose answer was acted on by it


def open_question(own: Iterable[NewCard]) -> NewCard | None:
    """The question of a turn whose answer was not acted on yet; None if there is none."""
    cards = list(own)
    settled = {card.metadata.get(SETTLES) for card in cards}
    for card in reversed(cards):
        if card.type == CardType.GUARDRAIL and approval_of(card) and card.card_id not in settled:
            return card
    return None
