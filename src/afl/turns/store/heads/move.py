"""One transition of a head with all its effects, described once and carried out under the fence.

On SQLite the effects are statements one after another. On PostgreSQL, where each would be a round trip, the whole
description is handed to one function of the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.codec import decode, encode_rows
from afl.kernel.database import Transaction
from afl.kernel.errors import FencedError
from afl.turns.bus import outbox
from afl.turns.cardbox import boxes
from afl.turns.cardbox.card_store import card_row, save_rows
from afl.turns.cardbox.cards import NewCard
from afl.turns.model import Head, L0Result, Limits
from afl.turns.primitives.dispatch_next import dispatch_next, told
from afl.turns.primitives.sources import Q as CALLS
from afl.turns.statuses import HeadStatus
from afl.turns.store import inbox
from afl.turns.store.edges import Q
from afl.turns.store.heads.fence import check_own, gated
from afl.turns.store.steps import StepEnd, close_open_steps, close_step, open_step, step_row

_QUERIES = {
    "enter": Q.enter,
    "go_on": Q.go_on,
    "suspend": Q.suspend,
    "apply": Q.count_down,
    "resume": Q.resume,
    "end_turn": Q.end_turn,
}


@dataclass(frozen=True, slots=True)
class Move:
    """What a transition does. `values` are those of its own update of the head."""

    kind: str
    sources: tuple[HeadStatus, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    cards: Sequence[NewCard] = ()  # saved, and put into the output box
    put: Sequence[str] = ()  # cards that are saved already
    waits: Sequence[Mapping[str, Any]] = ()
    edges: Sequence[Mapping[str, Any]] = ()
    outbox: Sequence[Mapping[str, Any]] = ()
    close: StepEnd | None = None
    open: str | None = None
    consume: str | None = None
    skip: str | None = None
    why: str = ""
    forget: bool = False  # the wait set
    steps_error: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The head after a transition, the turn it dispatched, and its rows in the outbox where their places are known."""

    head: Head
    following: L0Result | None = None
    left: tuple[outbox.Left, ...] = ()


def make(tx: Transaction, head: Head, move: Move, limits: Limits | None = None) -> Moved:
    """Carry out a transition; FencedError, and nothing written, when the head is not as it was read."""
    bounds = limits or Limits()
    for card in move.cards:
        check_own(head, card)
    cards = [card_row(head.project_id, card, bounds) for card in move.cards]
    ids = [card.card_id for card in move.cards] + list(move.put)
    moved = (_call if tx.dialect == "postgres" else _run)(tx, head, move, cards, ids)
    if moved is None:
        raise FencedError(
            f"turn {head.active_agent_turn_id} of {head.agent_id} moved on from epoch {head.turn_epoch}, "
            f"revision {head.revision}, {head.status}; nothing was written"
        )
    return moved


def _call(
    tx: Transaction, head: Head, move: Move, cards: list[dict[str, Any]], ids: list[str]
) -> Moved | None:
    """One call. What is not to be done is left out of the description."""
    effects = {
        "cards": cards,
        "put": ids,
        "last": move.kind == "end_turn",
        "waits": list(move.waits),
        "edges": list(move.edges),
        "outbox": list(move.outbox),
        "close": step_row(move.close) if move.close is not None else None,
        "open": move.open,
        "consume": move.consume,
        "skip": move.skip,
        "why": move.why,
        "forget": move.forget,
        "point": move.kind == "end_turn",
        "steps_error": move.steps_error,
    }
    described = gated(head) | {"kind": move.kind, "from": move.sources, "box": head.output_box_id}
    described |= {name: value for name, value in effects.items() if value} | dict(move.values)
    row = tx.one(CALLS.move, move=encode_rows(described))
    if row is None or row["moved"] is None:
        return None
    answer = decode(row["moved"])
    following = told(answer["next"]) if move.kind == "end_turn" else None
    left = tuple(outbox.Left.of(each, answer["outbox"][each["out"]]) for each in move.outbox)
    return Moved(Head.of(answer["head"]), following, left)


def _run(
    tx: Transaction, head: Head, move: Move, cards: list[dict[str, Any]], ids: list[str]
) -> Moved | None:
    """Statement by statement; the fence is the first of them."""
    if head.status not in move.sources:
        return None
    row = tx.one(_QUERIES[move.kind], **gated(head), **_head_values(move))
    if row is None:
        return None
    now = Head.of(row)
    if move.kind == "apply" and not _mark_applied(tx, head, move):
        raise FencedError(f"turn {head.active_agent_turn_id} does not wait for {move.values['call']}")
    save_rows(tx, cards)
    if ids:
        last = move.kind == "end_turn"
        turn, box = head.active_agent_turn_id or "", head.output_box_id or ""
        boxes.append(tx, head.project_id, box, turn, ids, last=last)
    tx.many(Q.add_new_edge, list(move.edges))
    tx.many(Q.wait_for, [{**_turn(head), **wait} for wait in move.waits])
    left = outbox.leave(tx, move.outbox)
    _close(tx, head, now, move)
    following = None
    if move.kind == "end_turn":
        following = dispatch_next(tx, head.project_id, head.agent_id, locked=True)
    return Moved(now, following, left)


def _close(tx: Transaction, head: Head, now: Head, move: Move) -> None:
    """What the transition leaves behind."""
    project, agent = head.project_id, head.agent_id
    if move.forget:
        tx.run(Q.forget_waits, project=project, agent=agent, turn=head.active_agent_turn_id)
    if move.kind == "end_turn":
        tx.run(Q.point_to_output, project=project, agent=agent, box=head.output_box_id)
    close_step(tx, head, move.close)
    if move.steps_error is not None:
        close_open_steps(tx, project, head.active_agent_turn_id or "", move.steps_error)
    if move.open is not None:
        open_step(tx, now, move.open)
    if move.consume is not None:
        inbox.consume(tx, project, move.consume)
    if move.skip is not None:
        inbox.skip(tx, project, move.skip, move.why)


def _head_values(move: Move) -> dict[str, Any]:
    return {name: value for name, value in move.values.items() if name != "card"}


def _mark_applied(tx: Transaction, head: Head, move: Move) -> bool:
    values = move.values
    return bool(tx.run(Q.mark_applied, **_turn(head), call=values["call"], card=values["card"]))


def _turn(head: Head) -> dict[str, Any]:
    return {name: value for name, value in gated(head).items() if name != "revision"}
