"""send: an enqueue from outside with everything it needs. Cards, boxes and the turn are one statement on PostgreSQL.

With a worker's free hand in the sender's process the turn is entered by the same transaction: T2 and T3 at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from afl.kernel.codec import decode, encode_rows
from afl.kernel.database import Transaction
from afl.turns.cardbox.boxes import open_boxes
from afl.turns.cardbox.card_store import card_row, row_in_box
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import SpawnIntent
from afl.turns.model import Begun, Head, L0Result, Limits, accepted
from afl.turns.primitives.dispatch_next import told
from afl.turns.primitives.enqueue import enqueue, unknown_agent
from afl.turns.primitives.sources import Q
from afl.turns.primitives.spawning import Spawn, acknowledgement, descendant, edge_of, message_of
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import InboxStatus, MessageType
from afl.turns.worker.hosting import Hand


def send(
    tx: Transaction,
    context: TurnContext,
    agent_id: str,
    cards: Sequence[NewCard],
    limits: Limits,
    hand: Hand | None = None,
) -> L0Result:
    """A turn that reads these new cards. Refused: ProtocolViolation, so that the cards go with the transaction.

    For an actor outside of any turn; whoever is in one descends from it, by `enqueue`.
    """
    if context.agent_turn_id or not context.is_outside:
        raise ProtocolViolation(f"{context.agent_id!r} is no actor outside of turns; use enqueue")
    rows = [card_row(context.project_id, card, limits) for card in cards]
    if tx.dialect == "postgres":
        return _call(tx, context, agent_id, rows, hand)
    read, written = open_boxes(tx, context.project_id, cards, limits)
    payload = {"context_box_id": read, "output_box_id": written}
    result = enqueue(tx, context, SpawnIntent(agent_id, payload), limits, hand)
    if not result.accepted:
        raise refusal(result)
    return result if result.begun is None else _reading(result, result.begun, rows)


def refusal(result: L0Result) -> ProtocolViolation:
    """What was refused, as an exception."""
    why = result.error or "the turn was refused"
    return ProtocolViolation(why) if result.error_code is None else ProtocolViolation(why, result.error_code)


def _call(
    tx: Transaction, context: TurnContext, agent_id: str, cards: Sequence[dict[str, Any]], hand: Hand | None
) -> L0Result:
    turn, payload = new_id("turn"), {"context_box_id": new_id("box"), "output_box_id": new_id("box")}
    child = descendant(context, SpawnIntent(agent_id, payload), turn)
    spawn = Spawn(child, context, payload, turn, turn, "", MessageType.TURN)
    step = new_id("step")
    row = tx.one(
        Q.send,
        message=encode_rows(message_of(spawn, InboxStatus.QUEUED, 0)),
        edges=encode_rows([edge_of(spawn)]),
        cards=encode_rows(cards),
        context=payload["context_box_id"],
        output=payload["output_box_id"],
        targets=[] if hand is None else list(hand.targets),
        owner="" if hand is None else hand.owner,
        lease_ms=0 if hand is None else hand.lease_ms,
        step=step,
    )
    answered = decode(row["sent"]) if row is not None else {}
    if "refused" in answered:
        raise unknown_agent(context, agent_id, known=bool(answered["refused"]))
    if "begun" in answered:
        head = Head.of(answered["begun"])
        return _reading(accepted(acknowledgement(spawn, head.leased)), Begun(head, step, ()), cards)
    following = told(answered.get("next"))
    mine = following.payload.get("dispatched") == turn
    answer = acknowledgement(spawn, following.payload if mine else None)
    return accepted(answer, signals=following.signals)


def _reading(result: L0Result, begun: Begun, cards: Sequence[Mapping[str, Any]]) -> L0Result:
    """What the turn reads need not be read: it was just written."""
    head = begun.head
    read = [row_in_box(head.context_box_id or "", card, head.updated_at) for card in cards]
    return replace(result, begun=replace(begun, cards=read))
