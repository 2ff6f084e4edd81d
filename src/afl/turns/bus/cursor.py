"""The position of a durable consumer in the outbox: a row that one process at a time holds and advances."""

from __future__ import annotations

import asyncio
import logging
import time

from afl.kernel.backoff import Backoff
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.database import Database, Row, Transaction
from afl.kernel.errors import StoreError
from afl.kernel.ids import sortable_id
from afl.kernel.presence import Life
from afl.turns.bus.base import MAX_DELIVER, Callback
from afl.turns.bus.outbox import OutboxRow, Q, following
from afl.turns.protocol.subjects import matches

LEASE_MS = 30_000
_ROWS = 50
_AGAIN = Backoff(0.1, cap=5.0)
_log = logging.getLogger(__name__)


class Cursor:
    """One consumer by name. Messages begin in order, up to `concurrency` at once.

    The stored position is before the first message that is not done, so that the next process misses none.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        patterns: tuple[str, ...],
        callback: Callback,
        concurrency: int = 1,
    ) -> None:
        self._database = database
        self._name = name
        self._patterns = patterns
        self._callback = callback
        self._concurrency = concurrency
        self._owner = ""
        self._held = False
        self._read = 0  # the last message that was begun, or is not for us
        self._attempts: dict[int, int] = {}  # that failed, of each message under way, in order
        self._kept = (0, 0)  # the position as the store has it
        self._kept_at = 0.0
        self._keeping = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        # Outside of any transaction: the first use takes the liveness lock.
        process = await asyncio.to_thread(lambda: self._database.presence.id)
        self._owner = f"{process}#{sortable_id()}"
        await self._database.run("write", lambda tx: tx.run(Q.open_cursor, consumer=self._name))

    async def close(self) -> None:
        """Messages that are being handled are canceled, and will be delivered again."""
        await cancel_and_wait(list(self._tasks))
        await self._keep_if_possible()
        await self._database.run(
            "write", lambda tx: tx.run(Q.drop_cursor, consumer=self._name, owner=self._owner)
        )

    async def advance(self) -> bool:
        """Start to handle what was published, as far as there is room; whether there may be more."""
        await self._keep()
        if not await self._database.run("read", self._peek) or not await self._take():
            return False
        for row in await self._database.run("read", lambda tx: following(tx, self._read, _ROWS)):
            if any(matches(pattern, row.message.subject) for pattern in self._patterns):
                if not await self._has_room():
                    return True
                self._begin(row)
            self._read = row.sequence or self._read
        await self._keep()
        return True

    def _peek(self, tx: Transaction) -> bool:
        cursor = tx.one(Q.read_cursor, consumer=self._name)
        if cursor is None:
            return False
        after = max(cursor["sequence"], self._read) if self._held else cursor["sequence"]
        return bool(following(tx, after, 1))

    async def _take(self) -> bool:
        """Take or renew the lease; whether it was free. After another holder, reading starts at its position."""
        async with self._keeping:
            dead = [] if self._held else await self._dead_holder()
            row = await self._database.run("write", lambda tx: self._take_lease(tx, dead))
            if row is None:
                self._lose()
                return False
            place = (row["sequence"], row["attempts"])
            if not self._held or place != self._kept:
                self._lose()
                self._read, self._kept = place[0], place
            self._held, self._kept_at = True, time.monotonic()
            return True

    def _take_lease(self, tx: Transaction, dead: list[str]) -> Row | None:
        return tx.one(Q.take_cursor, consumer=self._name, owner=self._owner, lease_ms=LEASE_MS, dead=dead)

    async def _dead_holder(self) -> list[str]:
        """The holder of the lease, if its process is proven dead: what it was doing is done again at once."""
        row = await self._database.run("read", lambda tx: tx.one(Q.read_cursor, consumer=self._name))
        process = "" if row is None else row["owner"].partition("#")[0]
        if row is None or not process or row["owner"] == self._owner:
            return []
        proof = await asyncio.to_thread(self._database.presence.proof, process)
        return [row["owner"]] if proof is Life.DEAD else []

    async def _has_room(self) -> bool:
        """Wait until one more message can be handled; False when another process has taken the consumer over."""
        while len(self._tasks) >= self._concurrency:
            await asyncio.wait(self._tasks, timeout=LEASE_MS / 3000, return_when=asyncio.FIRST_COMPLETED)
            await self._keep()
        return self._held

    def _begin(self, row: OutboxRow) -> None:
        sequence = row.sequence or 0
        place, attempts = self._kept
        self._attempts[sequence] = attempts if sequence == place + 1 else 0
        task = asyncio.create_task(self._handle(row, sequence))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, row: OutboxRow, sequence: int) -> None:
        """Call the callback until it succeeds, or has failed MAX_DELIVER times."""
        while not await self._is_taken(row):
            self._attempts[sequence] += 1
            if (attempts := self._attempts[sequence]) >= MAX_DELIVER:
                break
            if not await self._keep_if_possible():
                return
            await asyncio.sleep(_AGAIN.delay(attempts))
        self._attempts.pop(sequence, None)
        await self._keep_if_possible()

    async def _is_taken(self, row: OutboxRow) -> bool:
        try:
            await self._callback(row.message)
        except Exception:
            _log.exception("consumer %s failed on %s (%s)", self._name, row.message.subject, row.out_id)
            return False
        return True

    async def _keep_if_possible(self) -> bool:
        """`_keep`; while the store is unreachable `advance` does it later."""
        try:
            await self._keep()
        except StoreError as error:
            _log.warning("consumer %s: its position is stored later: %s", self._name, error)
        return self._held

    async def _keep(self) -> None:
        """Store the position, and renew the lease while messages are being handled."""
        async with self._keeping:
            place = self._place
            fresh = not self._attempts or time.monotonic() - self._kept_at < LEASE_MS / 3000
            if not self._held or (place == self._kept and fresh):
                return
            if await self._database.run("write", lambda tx: self._move(tx, *place)):
                self._kept, self._kept_at = place, time.monotonic()
            else:
                self._lose()

    @property
    def _place(self) -> tuple[int, int]:
        """The sequence before the first message that is not done, and how often that one failed."""
        for sequence, attempts in self._attempts.items():
            return sequence - 1, attempts
        return self._read, 0

    def _move(self, tx: Transaction, sequence: int, attempts: int) -> int:
        return tx.run(
            Q.advance_cursor,
            consumer=self._name,
            owner=self._owner,
            sequence=sequence,
            attempts=attempts,
            lease_ms=LEASE_MS,
        )

    def _lose(self) -> None:
        """Another process has the lease, and handles the messages that are being handled here."""
        self._held = False
        self._attempts.clear()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
