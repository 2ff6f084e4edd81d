"""One transition of a head: a fenced update, then its effects, in the order of the statements below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.database import Query, Row, Statement, Transaction
from afl.turns.bus import outbox
from afl.turns.cardbox import boxes
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import OUTSIDE
from afl.turns.errors import CardError, ErrorCode
from afl.turns.model import Head, Limits
from afl.turns.statuses import HeadStatus
from afl.turns.store import inbox
from afl.turns.store.edges import Q
from afl.turns.store.heads import fenced, head_update, turn_key, updated
from afl.turns.store.steps import StepEnd, close_step, open_step


@dataclass(frozen=True, slots=True)
class TransitionWrites:
    """What a transition writes. `values` are the parameters of `update`, the query that changes the head."""

    update: Query
    sources: tuple[HeadStatus, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    cards: Sequence[NewCard] = ()  # to be saved and appended to the output box
    saved_cards: Sequence[str] = ()  # to be appended only
    closes_box: bool = False
    waits: Sequence[Mapping[str, Any]] = ()
    edges: Sequence[Mapping[str, Any]] = ()
    outbox: Sequence[Mapping[str, Any]] = ()
    close_step: StepEnd | None = None
    open_step: str | None = None
    consume: str | None = None  # the id of an inbox message


def apply(tx: Transaction, head: Head, writes: TransitionWrites, limits: Limits | None = None) -> Head:
    """The head after the transition; FencedError, and nothing written, when it is not as it was read."""
    now, _ = apply_and_read(tx, head, writes, (), limits)
    return now


def apply_and_read(
    tx: Transaction,
    head: Head,
    writes: TransitionWrites,
    reads: Sequence[Statement],
    limits: Limits | None = None,
) -> tuple[Head, list[list[Row]]]:
    """As `apply`; and the rows of statements that are executed once the head is changed, and so locked."""
    for card in writes.cards:
        _check_author(head, card)
    if head.status not in writes.sources:
        raise fenced(head)
    cards = [*(card.card_id for card in writes.cards), *writes.saved_cards]
    box = head.project_id, head.output_box_id or "", head.active_agent_turn_id or ""
    room = [boxes.growth(*box, len(cards), last=writes.closes_box)] if cards else []
    changed, *found = tx.each(head_update(writes.update, head, **writes.values), *room, *reads)
    now = updated(head, changed)
    save_cards(tx, head.project_id, writes.cards, limits)
    if cards:
        boxes.fill(tx, *box, cards, found.pop(0))
    for edge in writes.edges:
        tx.queue(Q.add_new_edge, **edge)
    for wait in writes.waits:
        tx.queue(Q.wait_for, **turn_key(head), **wait)
    outbox.store(tx, writes.outbox)
    close_step(tx, head, writes.close_step)
    if writes.open_step is not None:
        open_step(tx, now, writes.open_step)
    if writes.consume is not None:
        inbox.consume(tx, head.project_id, writes.consume)
    return now, found


def _check_author(head: Head, card: NewCard) -> None:
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
