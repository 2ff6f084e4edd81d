"""The fence: a write of somebody who no longer holds the turn misses, and takes its transaction with it."""

from __future__ import annotations

from typing import Any

from afl.kernel.database import Query, Transaction
from afl.kernel.errors import FencedError
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import OUTSIDE
from afl.turns.errors import CardError, ErrorCode
from afl.turns.model import Head


def gated(head: Head) -> dict[str, Any]:
    """The parameters of a gate: turn, epoch and revision as they were read."""
    return {
        "project": head.project_id,
        "agent": head.agent_id,
        "turn": head.active_agent_turn_id or "",
        "epoch": head.turn_epoch,
        "revision": head.revision,
    }


def moved(tx: Transaction, query: Query, head: Head, **values: Any) -> Head:
    """The head after a write that has no other effect; FencedError when it is not as it was read."""
    row = tx.one(query, **gated(head), **values)
    if row is None:
        raise FencedError(
            f"turn {head.active_agent_turn_id} of {head.agent_id} moved on from epoch {head.turn_epoch}, "
            f"revision {head.revision}, {head.status}; nothing was written"
        )
    return Head.of(row)


def check_own(head: Head, card: NewCard) -> None:
    """A turn writes cards of its own: of this turn, by this agent, its tools or the system."""
    if card.agent_turn_id != head.active_agent_turn_id:
        raise CardError(
            f"card {card.card_id} is of turn {card.agent_turn_id!r}, not of {head.active_agent_turn_id}",
            ErrorCode.FOREIGN_AUTHOR,
        )
    if card.author_id != head.agent_id and not card.author_id.startswith(OUTSIDE):
        raise CardError(
            f"card {card.card_id} is by {card.author_id!r}; in a turn of {head.agent_id!r} that agent writes, "
            "its tools (tool.*) or the system (sys.*)",
            ErrorCode.FOREIGN_AUTHOR,
        )
