"""Append-only records that are read by position: events, outbox, logs, audit.

A record is appended inside the transaction that it tells of. A reader keeps the position of the last record
it has seen and asks for what comes after; it sees every committed record once, in the order of positions,
and never one that slips in behind it, although transactions commit in another order than they took their
positions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.codec import decode, encode
from afl.kernel.database import Database, Row, Schema, Transaction, queries

SCHEMA = Schema("afl.kernel", "sql/journal", component="journal")

_Q = queries("afl.kernel", "sql/journal")
_TRIM_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be recorded; `key` names whom it is about, so that their records can be read alone."""

    kind: str
    data: Any = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """What was recorded. `at` is for people: milliseconds on the writer's clock."""

    position: int
    stream: str
    kind: str
    key: str
    data: Any
    at: int


class Journal:
    """The journal of one database: many streams, one row of positions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.ensure(SCHEMA)

    def append(
        self,
        tx: Transaction,
        stream: str,
        kind: str,
        data: Any = None,
        *,
        key: str = "",
        at: int | None = None,
    ) -> int:
        """Record something as part of a transaction; its position."""
        row = tx.one(
            _Q.append, **_parameters(stream, Entry(kind, data, key), wall_ms() if at is None else at)
        )
        assert row is not None
        position: int = row["position"]
        return position

    def append_all(
        self, tx: Transaction, stream: str, entries: Iterable[Entry], *, at: int | None = None
    ) -> None:
        """Record several things at once, in their order."""
        moment = wall_ms() if at is None else at
        rows = [_parameters(stream, entry, moment) for entry in entries]
        if rows:
            tx.many(_Q.append, rows)

    def read(self, stream: str, *, after: int = 0, limit: int = 100, key: str | None = None) -> list[Record]:
        """The records of a stream (and key) behind a position, oldest first.

        Not inside a transaction of the caller's: what may be read is known only before the rows are looked
        at.
        """
        limits = {"after": after, "tail": self.tail(), "limit": limit}
        if key is None:
            rows = self._database.select(_Q.read, stream=stream, **limits)
        else:
            rows = self._database.select(_Q.read_key, stream=stream, key=key, **limits)
        return [_record(row) for row in rows]

    def tail(self) -> int:
        """Where a reader starts that wants only what is new.

        Nothing will appear at or before this position.
        """
        tail: int = self._database.select(_Q.tail)[0]["tail"]
        return tail

    def latest(
        self, tx: Transaction, stream: str, *, limit: int = 100, key: str | None = None
    ) -> list[Record]:
        """The last records of a stream (and key), newest first.

        To be shown, not to be followed by position.
        """
        if key is None:
            rows = tx.all(_Q.latest, stream=stream, limit=limit)
        else:
            rows = tx.all(_Q.latest_key, stream=stream, key=key, limit=limit)
        return [_record(row) for row in rows]

    def trim(self, tx: Transaction, stream: str, through: int, *, limit: int = _TRIM_ROWS) -> int:
        """Delete records up to and with a position, at most `limit` of them, oldest first; how many."""
        return tx.run(_Q.trim, stream=stream, through=through, limit=limit)

    def trim_older(self, tx: Transaction, stream: str, before: int, *, limit: int = _TRIM_ROWS) -> int:
        """Delete records from before a time, at most `limit` of them, oldest first; how many."""
        return tx.run(_Q.trim_older, stream=stream, before=before, limit=limit)


def _parameters(stream: str, entry: Entry, at: int) -> dict[str, Any]:
    what = f"{entry.kind} record of {stream}"
    return {
        "stream": stream,
        "kind": entry.kind,
        "key": entry.key,
        "data": encode(entry.data, what=what),
        "at": at,
    }


def _record(row: Row) -> Record:
    return Record(row["position"], row["stream"], row["kind"], row["key"], decode(row["data"]), row["at"])
