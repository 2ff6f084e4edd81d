"""Publishing the outbox: what is handed over or found there goes to the bus in order, and is written down.

A row is written down as published after the bus has it. Whoever dies in between has it published by the next relay,
whom the expected sequence of the subject tells that it is there already. So on a bus that keeps its own record this
may wait a little, and one statement does it for many rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from afl.kernel.database import Database
from afl.kernel.errors import FencedError, StoreError
from afl.turns.bus import outbox
from afl.turns.bus.base import Bus
from afl.turns.bus.outbox import Left, Q, Stored
from afl.turns.store.alone import Alone

_ROWS = 256
_SUBJECTS = 10_000
_RECORD_SECONDS = 0.05


class Publishing:
    """Used by one relay, from its own task; `hand` from the loop at any time. `lease` is (name, owner, epoch)."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._alone = Alone(database)
        self._bus = bus
        self._last: dict[str, int] = {}  # the last sequence of each subject, as this relay left it
        self._handed: list[Left] = []
        self._unrecorded: dict[int, Stored] = {}  # by position: the bus has them
        self._recorded: deque[int] = deque(
            maxlen=_ROWS
        )  # of late: one may be handed over after a look has found it
        self._record_at: float | None = None

    def close(self) -> None:
        self._alone.close()

    def forget(self) -> None:
        """Another relay may have published meanwhile; what is not recorded it finds on the bus."""
        self._last.clear()
        self._handed.clear()
        self._unrecorded.clear()
        self._record_at = None

    def hand(self, left: Iterable[Left]) -> None:
        """Rows of a transaction that has committed: they need not be looked for."""
        self._handed.extend(left)

    def patience(self, most: float) -> float:
        """For how many seconds there is nothing to record."""
        if self._record_at is None:
            return most
        return max(0.0, min(most, self._record_at - asyncio.get_running_loop().time()))

    async def publish_handed(self, lease: outbox.Lease) -> bool:
        """Publish what was handed over; False when something else must come before, which only a look can find."""
        rows: list[Stored] = []
        found: set[int] = set()
        handed, self._handed = self._handed, []
        for left in handed:
            if self._has(left.row.position):
                continue
            if left.before is not None and left.before not in found and not self._has(left.before):
                return False
            rows.append(left.row)
            found.add(left.row.position)
        if rows:
            await self._publish_or_record(rows, lease)
        return True

    def _has(self, position: int) -> bool:
        """Whether the bus has a row; of those that were recorded long ago nobody asks."""
        return position in self._unrecorded or position in self._recorded

    async def find(self, lease: outbox.Lease) -> list[Stored]:
        """What is in the outbox and not on the bus. What was handed over is among it."""
        self._handed.clear()
        if self._unrecorded:
            return await self.record(lease)
        return [Stored.of(row) for row in await self._alone.select(Q.unpublished, limit=_ROWS)]

    async def publish(self, rows: Sequence[Stored], lease: outbox.Lease) -> list[Stored]:
        """Publish rows and write it down; what is to be published next."""
        await self._publish_or_record(rows, lease)
        return await self.record(lease)

    async def record_when_due(self, lease: outbox.Lease) -> list[Stored]:
        if self._record_at is None or self.patience(1.0) > 0:
            return []
        return await self.record(lease)

    async def record(self, lease: outbox.Lease) -> list[Stored]:
        """Write down what the bus has; what is to be published next. FencedError when another one is the relay."""
        done = list(self._unrecorded.values())
        if not done:
            return []
        taken = {row.position: row.sequence or 0 for row in done}
        following = await self._alone.run(
            lambda tx: outbox.record(tx, taken, lease, limit=_ROWS), passing=True
        )
        if following is None:
            raise FencedError("another relay has taken over")
        for position in taken:
            del self._unrecorded[position]
            self._recorded.append(position)
        self._record_at = None
        self._bus.stored(done)
        return following

    async def _publish_or_record(self, rows: Sequence[Stored], lease: outbox.Lease) -> None:
        try:
            await self._publish(rows)
        except StoreError:
            await self.record(
                lease
            )  # the bus may have taken some, and what it took before waits to be recorded
            raise

    async def _publish(self, rows: Sequence[Stored]) -> None:
        """StoreError when the bus did not take them all."""
        await self._learn(rows)
        published = await self._bus.store(rows, self._last)
        for row in rows:
            sequence = published.sequences.get(row.position)
            if sequence is not None:
                self._last[row.message.subject] = sequence
                self._unrecorded[row.position] = replace(row, sequence=sequence)
        if self._unrecorded and self._record_at is None:
            now = asyncio.get_running_loop().time()
            self._record_at = now + (_RECORD_SECONDS if self._bus.is_lasting else 0)
        if published.error is not None:
            raise StoreError(f"the bus does not take messages: {published.error!r}") from published.error

    async def _learn(self, rows: Sequence[Stored]) -> None:
        if len(self._last) > _SUBJECTS and not self._unrecorded:
            self._last.clear()  # agents come and go; what is forgotten is learned again
        unknown = {row.message.subject for row in rows} - self._last.keys()
        if unknown:
            found = await self._database.run("read", lambda tx: outbox.last_sequences(tx, unknown))
            self._last.update(found)
