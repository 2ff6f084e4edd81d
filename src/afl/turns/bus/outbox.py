"""The outbox: messages that must be published, written in the transaction that they report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction, queries
from afl.kernel.errors import FencedError
from afl.turns.message import Message
from afl.turns.protocol.ids import new_id

Q = queries("afl.turns.store", "sql/outbox")
TOPIC = "turns:outbox"  # the notifier topic of the relay


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row of the outbox."""

    position: int
    out_id: str
    kind: str
    agent_id: str
    agent_turn_id: str
    message: Message
    created_at: int
    sequence: int | None

    @classmethod
    def of(cls, row: Row) -> OutboxRow:
        message = Message(row["subject"], decode(row["headers"]), decode(row["payload"]))
        return cls(
            row["position"],
            row["out_id"],
            row["kind"],
            row["agent_id"],
            row["agent_turn_id"],
            message,
            row["created_at"],
            row["sequence"],
        )


class Lease(NamedTuple):
    """The lease of the relay."""

    name: str
    owner: str
    epoch: int


def store_commands(
    tx: Transaction, project_id: str, messages: Iterable[Message], *, agent_id: str, turn_id: str
) -> int:
    """Commands to tools; how many."""
    rows = [out_row(project_id, "cmd", message, agent_id, turn_id) for message in messages]
    store(tx, rows)
    return len(rows)


def store(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows made by `out_row`."""
    for row in rows:
        tx.queue(Q.store, **row)


def task_of_turn(tx: Transaction, project_id: str, turn_id: str) -> OutboxRow | None:
    """The `evt.agent.*.task` of a turn; None while it has not ended."""
    row = tx.one(Q.task_of_turn, project=project_id, turn=turn_id)
    return OutboxRow.of(row) if row is not None else None


def unpublished(tx: Transaction, limit: int) -> list[OutboxRow]:
    """The rows to publish, in order."""
    return [OutboxRow.of(row) for row in tx.all(Q.unpublished, limit=limit)]


def last_sequences(tx: Transaction, subjects: Iterable[str]) -> dict[str, int]:
    """The last sequence that was recorded for each subject; 0 for none."""
    rows = tx.all(Q.last_sequences, subjects=sorted(set(subjects)))
    return {row["subject"]: row["sequence"] or 0 for row in rows}


def record(tx: Transaction, published: Sequence[OutboxRow], lease: Lease, *, limit: int) -> list[OutboxRow]:
    """Record the sequences of rows that the bus has, as the relay, and read the rows to publish next.

    FencedError when another process is the relay by now.
    """
    if tx.one(Q.lock_relay, **lease._asdict()) is None:
        raise FencedError("another relay has taken over")
    for row in published:
        tx.queue(Q.record, position=row.position, sequence=row.sequence)
    return unpublished(tx, limit)


def prune(tx: Transaction, older_ms: int, limit: int = 1000) -> int:
    """Delete commands that were published so long ago; the ends of turns stay. How many."""
    return tx.run(Q.prune, older_ms=older_ms, limit=limit)


def following(tx: Transaction, after: int, limit: int = 100) -> list[OutboxRow]:
    """The rows after a sequence, in order."""
    return [OutboxRow.of(row) for row in tx.all(Q.following, after=after, limit=limit)]


def out_row(project_id: str, kind: str, message: Message, agent_id: str, turn_id: str) -> dict[str, Any]:
    """The parameters of a row; `task_row` adds those of the end of a turn."""
    return {
        "out": new_id("out"),
        "project": project_id,
        "kind": kind,
        "subject": message.subject,
        "headers": encode(dict(message.headers), what=f"headers of {message.subject}"),
        "payload": encode(dict(message.payload), what=f"payload of {message.subject}"),
        "agent": agent_id,
        "turn": turn_id,
        "status": None,
        "box": None,
        "card": None,
    }
