"""How far a durable consumer has read in the outbox: a row that one process at a time moves on."""

from __future__ import annotations

import asyncio
import logging

from afl.kernel.backoff import Backoff
from afl.kernel.database import Database, Transaction
from afl.kernel.ids import sortable_id
from afl.turns import outbox
from afl.turns.bus.base import MAX_DELIVER, Callback
from afl.turns.outbox import Q, Stored
from afl.turns.subjects import matches

LEASE_MS = 30_000
_ROWS = 50
_AGAIN = Backoff(0.1, cap=5.0)
_log = logging.getLogger(__name__)


class Cursor:
    """One consumer by name. Messages are handled one after another; the place is kept after each."""

    def __init__(self, database: Database, name: str, patterns: tuple[str, ...], callback: Callback) -> None:
        self._database = database
        self._name = name
        self._patterns = patterns
        self._callback = callback
        self._owner = sortable_id()

    async def open(self) -> None:
        await self._database.run("write", lambda tx: tx.run(Q.open_cursor, consumer=self._name))

    async def close(self) -> None:
        await self._database.run(
            "write", lambda tx: tx.run(Q.drop_cursor, consumer=self._name, owner=self._owner)
        )

    async def advance(self) -> bool:
        """Handle what there is; whether there may be more."""
        found = await self._database.run("read", self._peek)
        if not found:
            return False
        place = await self._database.run("write", self._take)
        if place is None:  # another process has it
            return False
        sequence, attempts = place
        for row in await self._database.run("read", lambda tx: outbox.following(tx, sequence, _ROWS)):
            if not await self._handle(row, attempts):
                return True
            attempts = 0
        return True

    def _peek(self, tx: Transaction) -> bool:
        cursor = tx.one(Q.read_cursor, consumer=self._name)
        return cursor is not None and bool(outbox.following(tx, cursor["sequence"], 1))

    def _take(self, tx: Transaction) -> tuple[int, int] | None:
        row = tx.one(Q.take_cursor, consumer=self._name, owner=self._owner, lease_ms=LEASE_MS)
        return (row["sequence"], row["attempts"]) if row is not None else None

    async def _handle(self, row: Stored, attempts: int) -> bool:
        """Give one message to the callback; whether the place moved on."""
        if any(matches(pattern, row.message.subject) for pattern in self._patterns):
            try:
                await self._callback(row.message)
            except Exception:
                _log.exception("consumer %s failed on %s (%s)", self._name, row.message.subject, row.out_id)
                if attempts + 1 < MAX_DELIVER:
                    await self._move((row.sequence or 1) - 1, attempts + 1)
                    await asyncio.sleep(_AGAIN.delay(attempts + 1))
                    return False
        return await self._move(row.sequence or 0, 0)

    async def _move(self, sequence: int, attempts: int) -> bool:
        """Keep the place; False when another process has taken the consumer over."""
        moved = await self._database.run(
            "write",
            lambda tx: tx.run(
                Q.advance_cursor,
                consumer=self._name,
                owner=self._owner,
                sequence=sequence,
                attempts=attempts,
                lease_ms=LEASE_MS,
            ),
        )
        return bool(moved)
