"""send: an enqueue from outside with the cards that the turn reads, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afl.kernel.database import Transaction
from afl.turns.cardbox.boxes import open_boxes
from afl.turns.cardbox.card_store import card_row, row_in_box
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import SpawnIntent
from afl.turns.model import FreeSlot, L0Result, Limits
from afl.turns.primitives.enqueue import enqueue


def send(
    tx: Transaction,
    context: TurnContext,
    agent_id: str,
    cards: Sequence[NewCard],
    limits: Limits,
    slot: FreeSlot | None = None,
) -> L0Result:
    """A turn that reads these new cards. ProtocolViolation when it is refused, so that the cards are rolled back too.

    For an actor outside of any turn; an agent in a turn uses `enqueue`.
    """
    if context.agent_turn_id or not context.is_outside:
        raise ProtocolViolation(f"{context.agent_id!r} is not an actor outside of turns; use enqueue")
    context_box, output_box = open_boxes(tx, context.project_id, cards, limits)
    payload = {"context_box_id": context_box, "output_box_id": output_box}
    result = enqueue(tx, context, SpawnIntent(agent_id, payload), limits, slot)
    if not result.accepted:
        raise refusal(result)
    if result.entered is None:
        return result
    at = result.entered.head.updated_at
    rows = [row_in_box(context_box, card_row(context.project_id, card, limits), at) for card in cards]
    return replace(result, entered=replace(result.entered, cards=rows))


def refusal(result: L0Result) -> ProtocolViolation:
    """The exception for a result that was refused."""
    why = result.error or "the turn was refused"
    return ProtocolViolation(why) if result.error_code is None else ProtocolViolation(why, result.error_code)
