"""A session goes, with its turns and all that was said in them."""

from __future__ import annotations

from dataclasses import dataclass

from afl.kernel.database import Transaction
from afl.kernel.errors import StateError
from afl.turns.orchestration.memory import forget
from afl.turns.sessions.records import Q, SessionRow, get_session
from afl.turns.store.blobs import cards_removed


class NotPublished(StateError):
    """The end of a turn is not published yet; a running worker does that within moments."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed; turns that forks have too stay."""

    session: str
    turns: int
    cards: int


def remove(tx: Transaction, project: str, session_id: str) -> Removed:
    """Delete a session. StateError while one of its turns is not over, or its end not published.

    Turns that its turns asked other agents for stay, as turns of those.
    """
    tx.one(Q.lock_session, project=project, session=session_id)
    session = get_session(tx, project, session_id)
    open_ = tx.one(Q.unfinished, project=project, actor=session.actor_id)
    if open_ is not None:
        raise StateError(
            f"turn {open_['agent_turn_id']} of session {session_id!r} is not over; stop it first"
        )
    own = tx.all(Q.only_here, project=project, session=session_id)
    turns = [row["agent_turn_id"] for row in own]
    boxes = [box for row in own for box in (row["context_box_id"], row["output_box_id"])]
    tx.run(Q.drop_turns, project=project, session=session_id)
    tx.run(Q.drop_session, project=project, session=session_id)
    cards = _remove_turns(tx, project, turns, boxes) if turns else 0
    forget(tx, project, f"session:{session_id}")
    tx.run(Q.drop_account, project=project, account=f"session:{session_id}")
    _remove_actor(tx, session)
    return Removed(session_id, len(turns), cards)


def _remove_turns(tx: Transaction, project: str, turns: list[str], boxes: list[str]) -> int:
    if tx.one(Q.unpublished, project=project, turns=turns) is not None:
        raise NotPublished("the end of its last turn is not published yet; try again while a worker runs")
    cards = [row["card_id"] for row in tx.all(Q.cards_of_boxes, project=project, boxes=boxes)]
    for query in (Q.drop_outbox, Q.drop_inbox, Q.drop_steps, Q.drop_edges):
        tx.run(query, project=project, turns=turns)
    for query in (Q.drop_box_cards, Q.drop_boxes):
        tx.run(query, project=project, boxes=boxes)
    cards_removed(tx, project, cards)
    return tx.run(Q.drop_cards, project=project, cards=cards)


def _remove_actor(tx: Transaction, session: SessionRow) -> None:
    for query in (Q.drop_pointers, Q.drop_head, Q.drop_actor):
        tx.run(query, project=session.project_id, actor=session.actor_id)
