"""Cards in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from afl.kernel.codec import decode, encode
from afl.kernel.database import Query, Row, Transaction, queries
from afl.kernel.errors import StoreConflict
from afl.turns.cardbox.cards import Card, NewCard, check_card, encoded, role_of
from afl.turns.model import Limits

Q = queries("afl.turns.store", "sql/cards")
_FEW = 12  # with more rows `many` takes less time
_COLUMNS = (
    "card_id",
    "type",
    "author_id",
    "role",
    "agent_turn_id",
    "step_id",
    "tool_call_id",
    "function_name",
)
_PARAMETERS = {
    "project": "project_id",
    "turn": "agent_turn_id",
    "step": "step_id",
    "call": "tool_call_id",
    "function": "function_name",
}


def save_cards(
    tx: Transaction, project_id: str, cards: Sequence[NewCard], limits: Limits | None = None
) -> None:
    """Store cards; all are checked before the first is written."""
    bounds = limits or Limits()
    save_rows(tx, [card_row(project_id, card, bounds) for card in cards])


def save_rows(tx: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    """Store cards that were checked."""
    queue_all(tx, Q.save_card, rows)


def queue_all(tx: Transaction, query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
    """Execute a statement once per row, without results."""
    if len(rows) > _FEW:
        tx.many(query, rows)
        return
    for row in rows:
        tx.queue(query, **row)


def save_result(tx: Transaction, project_id: str, card: NewCard, limits: Limits | None = None) -> Card:
    """Store the result of a tool call unless it has one; the result it has now. The first one wins."""
    row = tx.one(Q.save_first, **card_row(project_id, card, limits or Limits()))
    stored = card_of(row) if row is not None else result_card_of(tx, project_id, card.tool_call_id)
    if stored is None:
        raise StoreConflict(
            f"card {card.card_id} exists already and is not the result of {card.tool_call_id}"
        )
    return stored


def find_cards(tx: Transaction, project_id: str, ids: Iterable[str]) -> dict[str, Card]:
    """The cards among these ids that exist."""
    wanted = list(ids)
    if not wanted:
        return {}
    rows = tx.all(Q.find_cards, project=project_id, ids=wanted)
    return {row["card_id"]: card_of(row) for row in rows}


def result_card_of(tx: Transaction, project_id: str, tool_call_id: str) -> Card | None:
    """The result of a tool call: the first that was saved, and the only one."""
    row = tx.one(Q.result_card, project=project_id, call=tool_call_id)
    return card_of(row) if row is not None else None


def row_in_box(box_id: str, params: Mapping[str, Any], at: int) -> Row:
    """The row of a card that was just saved with these parameters and put into a box, as it will be read."""
    names = {_PARAMETERS.get(name, name): value for name, value in params.items()}
    return names | {"box_id": box_id, "created_at": at}


def card_of(row: Row) -> Card:
    return Card(
        **{name: row[name] for name in _COLUMNS},
        content=decode(row["content"]),
        tool_calls=decode(row["tool_calls"]),
        metadata=decode(row["metadata"]),
        created_at=row["created_at"],
    )


def card_row(project_id: str, card: NewCard, limits: Limits) -> dict[str, Any]:
    """The parameters of a card; CardError when it cannot be."""
    content = check_card(card, limits)
    return {
        "project": project_id,
        "card_id": card.card_id,
        "type": str(card.type),
        "author_id": card.author_id,
        "role": role_of(card),
        "turn": card.agent_turn_id,
        "step": card.step_id,
        "call": card.tool_call_id,
        "function": card.function_name,
        "content": content,
        "tool_calls": encoded(list(card.tool_calls), f"tool_calls of card {card.card_id}", limits),
        "metadata": encode(dict(card.metadata), what=f"metadata of card {card.card_id}"),
    }
