"""The outbox: what must be published, written in the transaction that it tells of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction, queries
from afl.turns.message import Message
from afl.turns.protocol.ids import new_id

Q = queries("afl.turns.store", "sql/outbox")
TOPIC = "turns:outbox"  # the notifier topic of the relay


@dataclass(frozen=True, slots=True)
class Stored:
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
    def of(cls, row: Row) -> Stored:
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


@dataclass(frozen=True, slots=True)
class Left:
    """A row as it was left, and the position of the one on its subject that must be published before it."""

    row: Stored
    before: int | None

    @classmethod
    def of(cls, row: Mapping[str, Any], place: Mapping[str, Any]) -> Left:
        """Of the parameters of a row (`out_row`), and where the store put it."""
        message = Message(row["subject"], decode(row["headers"]), decode(row["payload"]))
        position, at = place["position"], place["at"]
        kept = Stored(position, row["out"], row["kind"], row["agent"], row["turn"], message, at, None)
        return cls(kept, place["before"])


class Lease(NamedTuple):
    """Who the relay is."""

    name: str
    owner: str
    epoch: int


def store_commands(
    tx: Transaction, project_id: str, messages: Iterable[Message], *, agent_id: str, turn_id: str
) -> int:
    """Commands to tools; how many."""
    rows = [out_row(project_id, "cmd", message, agent_id, turn_id) for message in messages]
    if len(rows) == 1:
        tx.run(Q.store, **rows[0])
    elif rows:
        tx.many(Q.store, rows)
    return len(rows)


def leave(tx: Transaction, rows: Iterable[Mapping[str, Any]]) -> tuple[Left, ...]:
    """Rows of a transition on SQLite, and where they are: then the relay need not look for them."""
    return tuple(_left(tx, row) for row in rows)


def _left(tx: Transaction, row: Mapping[str, Any]) -> Left:
    place = tx.one(Q.leave, **row)
    assert place is not None
    before = tx.one(Q.left_before, subject=row["subject"], position=place["position"])
    return Left.of(row, {**place, "before": None if before is None else before["position"]})


def task_of_turn(tx: Transaction, project_id: str, turn_id: str) -> Stored | None:
    """How a turn ended; None while it has not."""
    row = tx.one(Q.task_of_turn, project=project_id, turn=turn_id)
    return Stored.of(row) if row is not None else None


def unpublished(tx: Transaction, limit: int) -> list[Stored]:
    """What the relay has to publish, in order."""
    return [Stored.of(row) for row in tx.all(Q.unpublished, limit=limit)]


def last_sequences(tx: Transaction, subjects: Iterable[str]) -> dict[str, int]:
    """The last sequence that was recorded for each subject; 0 for none."""
    rows = tx.all(Q.last_sequences, subjects=sorted(set(subjects)))
    return {row["subject"]: row["sequence"] or 0 for row in rows}


def record(tx: Transaction, sequences: Mapping[int, int], lease: Lease, *, limit: int) -> list[Stored] | None:
    """Write down what the bus has taken (position -> sequence), as the relay, and read what there is next.

    None when another one is the relay by now; then nothing was written.
    """
    positions = sorted(sequences)
    numbers = [sequences[position] for position in positions]
    relay = lease._asdict()
    if tx.dialect == "postgres":
        found = tx.all(Q.record_and_look, positions=positions, sequences=numbers, limit=limit, **relay)
        ours = found[0]["recorded"] == len(positions)
        return [Stored.of(row) for row in found if row["position"] is not None] if ours else None
    rows = tx.all(Q.record, positions=encode(positions), sequences=encode(numbers), **relay)
    return unpublished(tx, limit) if len(rows) == len(positions) else None


def prune(tx: Transaction, older_ms: int, limit: int = 1000) -> int:
    """Forget commands that were published so long ago; the ends of turns stay. How many."""
    return tx.run(Q.prune, older_ms=older_ms, limit=limit)


def following(tx: Transaction, after: int, limit: int = 100) -> list[Stored]:
    """What was published behind a sequence, in order."""
    return [Stored.of(row) for row in tx.all(Q.following, after=after, limit=limit)]


def out_row(project_id: str, kind: str, message: Message, agent_id: str, turn_id: str) -> dict[str, Any]:
    """The parameters of a row; those of a task are completed by whoever ends the turn."""
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
