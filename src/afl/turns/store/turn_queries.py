"""Queries about turns for people: by the beginning of an id, the latest ones, with their edges and messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel.codec import decode
from afl.kernel.database import Row, Transaction, queries
from afl.turns.cardbox.deliverable import deliverable_text
from afl.turns.model import Head, InboxRow
from afl.turns.store.edges import Edge
from afl.turns.store.edges import Q as HEADS
from afl.turns.store.heads import head_of_turn, list_heads
from afl.turns.store.steps import Step

Q = queries("afl.turns.store", "sql/turn_queries")
_PREFIX = "turn_"
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn in a list. `status` is its current or final status."""

    agent_turn_id: str
    agent_id: str
    message_type: str
    channel_id: str
    status: str
    payload: Mapping[str, Any]  # of the message that began it
    told: Mapping[str, Any]  # of its `evt.agent.*.task`; empty while it is not over
    created_at: int
    ended_at: int | None
    last_error: str | None

    @property
    def is_over(self) -> bool:
        return bool(self.told)

    @classmethod
    def of(cls, row: Row) -> TurnRow:
        return cls(
            row["agent_turn_id"],
            row["agent_id"],
            row["message_type"],
            row["channel_id"],
            row["end_status"] or row["head_status"] or row["status"],
            decode(row["payload"]),
            decode(row["told"]) if row["told"] is not None else {},
            row["created_at"],
            row["ended_at"],
            row["last_error"],
        )


def turns_named(tx: Transaction, project_id: str, beginning: str) -> list[tuple[str, str]]:
    """(turn, agent) of up to three turns whose id begins so, with or without `turn_`."""
    low = beginning if beginning.startswith(_PREFIX) else f"{_PREFIX}{beginning}"
    rows = tx.all(Q.turns_between, project=project_id, low=low, high=low + _LAST)
    return [(row["agent_turn_id"], row["agent_id"]) for row in rows]


def latest_turns(
    tx: Transaction, project_id: str, agent_id: str = "", limit: int = 20, skip: int = 0
) -> list[TurnRow]:
    """The newest turns, of one agent or of all; `skip` leaves out so many."""
    rows = tx.all(Q.latest_turns, project=project_id, agent=agent_id, limit=limit, skip=skip)
    return [TurnRow.of(row) for row in rows]


def instruction_of(tx: Transaction, row: TurnRow, project_id: str) -> str:
    """What the turn was asked for, as text; empty for one without a context box."""
    box = row.payload.get("context_box_id") or ""
    found = tx.one(Q.last_instruction, project=project_id, box=box) if box else None
    return deliverable_text(decode(found["content"])) if found is not None else ""


def turn_at_a_glance(tx: Transaction, project_id: str, turn_id: str) -> TurnRow | None:
    row = tx.one(Q.turn_at_a_glance, project=project_id, turn=turn_id)
    return TurnRow.of(row) if row is not None else None


def turn_in_detail(
    tx: Transaction, project_id: str, turn_id: str
) -> tuple[TurnRow, Head | None, list[Step]] | None:
    """A turn, the head on which it is active, and its steps, in one round trip."""
    about = {"project": project_id, "turn": turn_id}
    found, heads, steps = tx.each(
        (Q.turn_at_a_glance, about), (HEADS.head_of_turn, about), (HEADS.read_steps, about)
    )
    if not found:
        return None
    return TurnRow.of(found[0]), Head.of(heads[0]) if heads else None, [Step.of(row) for row in steps]


def pulse(tx: Transaction, project_id: str, turn_id: str = "") -> object:
    """A value that changes with every change of a turn, or of any turn of the project."""
    if turn_id:
        head, row = head_of_turn(tx, project_id, turn_id), turn_at_a_glance(tx, project_id, turn_id)
        return (
            head.revision if head else 0,
            head.waiting_tool_count if head else 0,
            row.status if row else "",
        )
    heads = tuple((head.agent_id, head.revision) for head in list_heads(tx, project_id))
    newest = tuple((row.agent_turn_id, row.status) for row in latest_turns(tx, project_id, limit=1))
    return heads, tuple(sorted(queued_counts(tx, project_id).items())), newest


def queued_counts(tx: Transaction, project_id: str) -> dict[str, int]:
    """How many turns wait for each agent that has any waiting."""
    return {row["agent_id"]: row["queued"] for row in tx.all(Q.queued_counts, project=project_id)}


def queue_ahead(tx: Transaction, project_id: str, agent_id: str, turn_id: str) -> int:
    """How many queued turns come before this one."""
    row = tx.one(Q.queue_ahead, project=project_id, agent=agent_id, turn=turn_id)
    return int(row["ahead"]) if row is not None else 0


def edges_about(tx: Transaction, project_id: str, turn_id: str, trace_id: str) -> list[Edge]:
    """The edges from a turn and to it."""
    return [Edge.of(row) for row in tx.all(Q.edges_about, project=project_id, turn=turn_id, trace=trace_id)]


def open_messages(tx: Transaction, project_id: str, agent_id: str) -> list[InboxRow]:
    """The open messages of an agent, queued turns apart."""
    return [InboxRow.of(row) for row in tx.all(Q.pending_of_agent, project=project_id, agent=agent_id)]
