"""Boxes: cards in an order. A context box is complete when it is made; an output box grows at its end.

Only the turn that holds an output box appends to it. A turn that needs one that is held gets a fork: a box of its own
that begins with the same cards. What an append costs does not depend on how many cards there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.kernel.database import Row, Statement, Transaction
from afl.kernel.errors import FencedError
from afl.turns.cardbox.card_store import Q, card_of, card_row, queue_all, save_rows
from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.model import Limits
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import BoxKind


@dataclass(frozen=True, slots=True)
class Box:
    """A box without its cards."""

    box_id: str
    kind: BoxKind
    length: int
    writer: str  # the turn that writes to it, or did last
    held: bool
    parent_box_id: str | None


def create_box(tx: Transaction, project_id: str, kind: BoxKind, cards: Sequence[str] = ()) -> str:
    """A new box with these cards; its id."""
    name = new_id("box")
    ids = list(cards)
    if ids:
        known = tx.one(Q.box_cards_known, project=project_id, ids=ids)
        if known is None or known["known"] != len(set(ids)) or len(set(ids)) != len(ids):
            raise ProtocolViolation(
                f"box {name}: a card is given twice or is none of {project_id}", ErrorCode.UNKNOWN_CARD
            )
    _insert_box(tx, project_id, name, kind, len(ids))
    _put(tx, project_id, name, "", ids, 0)
    return name


def open_boxes(
    tx: Transaction, project_id: str, cards: Sequence[NewCard], limits: Limits | None = None
) -> tuple[str, str]:
    """A context box with new cards, and an empty output box; their ids."""
    context, output = new_id("box"), new_id("box")
    rows = [card_row(project_id, card, limits or Limits()) for card in cards]
    save_rows(tx, rows)
    _insert_box(tx, project_id, context, BoxKind.CONTEXT, len(rows))
    _put(tx, project_id, context, "", [card.card_id for card in cards], 0)
    _insert_box(tx, project_id, output, BoxKind.OUTPUT, 0)
    return context, output


def create_output_box(tx: Transaction, project_id: str, box_id: str, turn_id: str) -> None:
    """An empty output box that a turn holds from the beginning."""
    _insert_box(tx, project_id, box_id, BoxKind.OUTPUT, 0, turn_id)


def read_box(tx: Transaction, project_id: str, box_id: str, after: int = -1) -> list[tuple[int, Card]]:
    """The cards behind a position, in order."""
    rows = tx.all(Q.read_box, project=project_id, box=box_id, after=after)
    return [(row["position"], card_of(row)) for row in rows]


def box_info(tx: Transaction, project_id: str, box_id: str) -> Box | None:
    row = tx.one(Q.box_info, project=project_id, box=box_id)
    if row is None:
        return None
    return Box(
        row["box_id"],
        BoxKind(row["kind"]),
        row["length"],
        row["writer"],
        bool(row["held"]),
        row["parent_box_id"],
    )


def append(
    tx: Transaction, project_id: str, box_id: str, turn_id: str, cards: Sequence[str], *, last: bool = False
) -> int:
    """Append cards, as the turn that holds the box; its new length.

    With `last` the turn releases the box.
    """
    (rows,) = tx.each(growth(project_id, box_id, turn_id, len(cards), last=last))
    return fill(tx, project_id, box_id, turn_id, cards, rows)


def growth(project_id: str, box_id: str, turn_id: str, count: int, *, last: bool = False) -> Statement:
    """The statement that makes room for cards at the end of a box; `fill` is given its rows."""
    params = {"project": project_id, "box": box_id, "turn": turn_id, "count": count}
    return Q.close_box if last else Q.grow_box, params


def fill(
    tx: Transaction, project_id: str, box_id: str, turn_id: str, cards: Sequence[str], grown: Sequence[Row]
) -> int:
    """Put cards into the room that was made for them; the length of the box."""
    if not grown:
        raise FencedError(f"turn {turn_id} does not hold the output box {box_id}; nothing was written")
    length: int = grown[0]["length"]
    _put(tx, project_id, box_id, turn_id, list(cards), length - len(cards))
    return length


def acquire(tx: Transaction, project_id: str, box_id: str, turn_id: str) -> str:
    """The output box for a turn: this one, or a fork of it when another turn holds it."""
    (acquired,) = tx.each(acquisition(project_id, box_id, turn_id))
    return box_id if acquired else fork(tx, project_id, box_id, turn_id)


def acquisition(project_id: str, box_id: str, turn_id: str) -> Statement:
    """The statement by which a turn gets an output box. It gives no row when another turn holds it: `fork` then."""
    return Q.acquire_box, {"project": project_id, "box": box_id, "turn": turn_id}


def fork(tx: Transaction, project_id: str, box_id: str, turn_id: str) -> str:
    """A box that begins with the cards of another, held by this turn."""
    fork = new_id("box")
    if not tx.run(Q.fork_box, project=project_id, box=box_id, fork=fork, turn=turn_id):
        raise ProtocolViolation(f"there is no box {box_id} in {project_id}", ErrorCode.UNKNOWN_BOX)
    tx.run(Q.copy_box_cards, project=project_id, box=box_id, fork=fork, turn=turn_id)
    return fork


def _insert_box(
    tx: Transaction, project_id: str, box_id: str, kind: BoxKind, length: int, writer: str = ""
) -> None:
    tx.queue(
        Q.create_box,
        project=project_id,
        box=box_id,
        kind=str(kind),
        length=length,
        writer=writer,
        held=int(bool(writer)),
        parent=None,
    )


def _put(tx: Transaction, project_id: str, box_id: str, turn_id: str, cards: list[str], first: int) -> None:
    rows = [
        {"project": project_id, "box": box_id, "position": first + place, "card": card, "turn": turn_id}
        for place, card in enumerate(cards)
    ]
    queue_all(tx, Q.put_card, rows)
