"""send: an enqueue from outside with everything it needs. Cards, boxes and the turn are one statement on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel.codec import decode, encode_rows
from afl.kernel.database import Transaction
from afl.turns.boxes import open_boxes
from afl.turns.card_store import card_row
from afl.turns.cards import NewCard
from afl.turns.context import TurnContext
from afl.turns.errors import ProtocolViolation
from afl.turns.ids import new_id
from afl.turns.intents import SpawnIntent
from afl.turns.model import L0Result, Limits, accepted
from afl.turns.primitives.dispatch_next import told
from afl.turns.primitives.enqueue import enqueue, unknown_agent
from afl.turns.primitives.sources import Q
from afl.turns.primitives.spawning import Spawn, acknowledgement, descendant, edge_of, message_of
from afl.turns.statuses import InboxStatus, MessageType


def send(
    tx: Transaction, context: TurnContext, agent_id: str, cards: Sequence[NewCard], limits: Limits
) -> L0Result:
    """A turn that reads these new cards. Refused: ProtocolViolation, so that the cards go with the transaction.

    For an actor outside of any turn; whoever is in one descends from it, by `enqueue`.
    """
    if context.agent_turn_id or not context.is_outside:
        raise ProtocolViolation(f"{context.agent_id!r} is no actor outside of turns; use enqueue")
    if tx.dialect == "postgres":
        return _call(tx, context, agent_id, cards, limits)
    read, written = open_boxes(tx, context.project_id, cards, limits)
    payload = {"context_box_id": read, "output_box_id": written}
    result = enqueue(tx, context, SpawnIntent(agent_id, payload), limits)
    if not result.accepted:
        raise refusal(result)
    return result


def refusal(result: L0Result) -> ProtocolViolation:
    """What was refused, as an exception."""
    why = result.error or "the turn was refused"
    return ProtocolViolation(why) if result.error_code is None else ProtocolViolation(why, result.error_code)


def _call(
    tx: Transaction, context: TurnContext, agent_id: str, cards: Sequence[NewCard], limits: Limits
) -> L0Result:
    turn, payload = new_id("turn"), {"context_box_id": new_id("box"), "output_box_id": new_id("box")}
    child = descendant(context, SpawnIntent(agent_id, payload), turn)
    spawn = Spawn(child, context, payload, turn, turn, "", MessageType.TURN)
    row = tx.one(
        Q.send,
        message=encode_rows(message_of(spawn, InboxStatus.QUEUED, 0)),
        edges=encode_rows([edge_of(spawn)]),
        cards=encode_rows([card_row(context.project_id, card, limits) for card in cards]),
        **{name.removesuffix("_box_id"): box for name, box in payload.items()},
    )
    answered = decode(row["sent"]) if row is not None else {}
    if "refused" in answered:
        raise unknown_agent(context, agent_id, known=bool(answered["refused"]))
    following = told(answered.get("next"))
    mine = following.payload.get("dispatched") == turn
    answer = acknowledgement(spawn, following.payload if mine else None)
    return accepted(answer, signals=following.signals)
