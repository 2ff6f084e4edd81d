"""The relay publishes the outbox, in order and once. Every process has one; the one that holds the lease works."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from afl.kernel.backoff import Backoff
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.database import Database
from afl.kernel.errors import FencedError, StoreError
from afl.kernel.lease import RUN_LEASE_MS
from afl.kernel.notify import Notifier, Subscription, open_notifier
from afl.kernel.presence.base import Life
from afl.turns.bus.base import Bus
from afl.turns.bus.outbox import TOPIC, Lease, OutboxRow, Q, last_sequences, prune, record

NAME = "turns"
_POLL_SECONDS = 1.0  # a notification may be lost
_SPACING_SECONDS = 0.005
_CLOSE_SECONDS = 2.0
_KEPT_MS = 24 * 3600 * 1000  # for published commands, as long as a server would keep them
_PRUNE_SECONDS = 600.0
_BACKOFF = Backoff(0.1, cap=2.0)
_BATCH = 256
_SUBJECTS = 10_000
_log = logging.getLogger(__name__)


class Relay:
    """Takes the lease when it is free, and publishes while it has it.

    A row is recorded as published after the bus has it, fenced by the lease. A relay that stopped in between, or lost
    the lease without knowing, may publish a row again; the bus recognizes it by the expected sequence of its subject.
    """

    def __init__(
        self, database: Database, bus: Bus, notifier: Notifier | None = None, *, lease_ms: int = RUN_LEASE_MS
    ) -> None:
        self._database = database
        self._bus = bus
        self._notifier = notifier
        self._own_notifier = notifier is None
        self._lease_ms = lease_ms
        self._owner = ""
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        self._written = asyncio.Event()  # this process wrote to the outbox
        self._epoch: int | None = None  # of the lease, while this relay has it
        self._last: dict[str, int] = {}  # the last sequence of each subject
        self._renew_at = self._prune_at = 0.0
        self._failures = 0
        self._closing = False

    async def start(self) -> None:
        if self._notifier is None:
            self._notifier = open_notifier(self._database)
        # Outside of any transaction: the first use takes the liveness lock.
        self._owner = await asyncio.to_thread(lambda: self._database.presence.id)
        self._subscription = self._notifier.subscribe([TOPIC])
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Finish what is being published, and release the lease."""
        self._closing = True
        if self._subscription is not None:
            self._subscription.wake()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)
            await cancel_and_wait([self._task])
        if self._subscription is not None:
            self._subscription.close()
        if self._epoch is not None:
            await self._database.run("write", lambda tx: tx.run(Q.drop_relay, name=NAME, owner=self._owner))
            self._epoch = None
        if self._own_notifier and self._notifier is not None:
            self._notifier.close()
            self._notifier = None

    def notify(self) -> None:
        """A transaction that wrote to the outbox has committed."""
        if self._epoch is not None and self._subscription is not None:
            self._written.set()
            self._subscription.wake()
        elif self._notifier is not None:
            self._notifier.notify(TOPIC)

    async def _work(self) -> None:
        assert self._subscription is not None
        while not self._closing:
            delay = _POLL_SECONDS
            try:
                if await self._hold():
                    await self._publish_all()
                self._failures = 0
            except FencedError:
                self._epoch = None
            except StoreError as error:
                delay = self._failed(error)
            except Exception as error:  # whatever it is, the loop must go on
                _log.exception("the relay failed")
                delay = self._failed(error)
            if await self._subscription.wait_async(delay):
                await self._space()
            self._written.clear()

    async def _space(self) -> None:
        """On SQLite every commit wakes the relay, and most commits write nothing to the outbox."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._written.wait(), _SPACING_SECONDS)

    def _failed(self, error: Exception) -> float:
        """How long to wait; logged as a warning once per outage."""
        self._failures += 1
        self._last.clear()
        _log.log(
            logging.WARNING if self._failures == 1 else logging.DEBUG,
            "the relay cannot publish: %r; trying again",
            error,
        )
        return _BACKOFF.delay(self._failures)

    async def _hold(self) -> bool:
        """Whether this relay has the lease; it is taken, or renewed, when that is due."""
        now = asyncio.get_running_loop().time()
        if self._epoch is not None and now < self._renew_at:
            return True
        dead = await self._dead_holder()
        row = await self._database.run(
            "write",
            lambda tx: tx.one(Q.take_relay, name=NAME, owner=self._owner, lease_ms=self._lease_ms, dead=dead),
        )
        if row is None:
            self._epoch = None
            return False
        if row["epoch"] != self._epoch:
            self._last.clear()  # another relay may have published meanwhile
        self._epoch, self._renew_at = row["epoch"], now + self._lease_ms / 3000
        if now >= self._prune_at:
            self._prune_at = now + _PRUNE_SECONDS
            await self._database.run("write", lambda tx: prune(tx, _KEPT_MS))
        return True

    async def _dead_holder(self) -> list[str]:
        """The holder of the lease, if it is proven dead."""
        row = await self._database.run("read", lambda tx: tx.one(Q.relay_row, name=NAME))
        if row is None or row["owner"] in ("", self._owner):
            return []
        proof = await asyncio.to_thread(self._database.presence.proof, row["owner"])
        return [row["owner"]] if proof is Life.DEAD else []

    async def _publish_all(self) -> None:
        """Publish until the outbox is empty or the lease is lost."""
        rows = [OutboxRow.of(row) for row in await self._database.fetch(Q.unpublished, limit=_BATCH)]
        while rows:
            rows = await self._publish(rows)
            self._failures = 0
            if rows and not await self._hold():
                return

    async def _publish(self, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        """Publish rows and record that; the rows to publish next."""
        await self._read_sequences(rows)
        published = await self._bus.store(rows, self._last)
        done = [
            replace(row, sequence=published.sequences[row.position])
            for row in rows
            if row.position in published.sequences
        ]
        self._last.update({row.message.subject: row.sequence or 0 for row in done})
        following = await self._record(done) if done else []
        if published.error is not None:
            raise StoreError(f"the bus does not take messages: {published.error!r}") from published.error
        return following

    async def _record(self, done: Sequence[OutboxRow]) -> list[OutboxRow]:
        """The rows to publish next. FencedError when another process is the relay by now; then nothing was written.

        Not forced to the disk: after a failure of the machine the rows are published again, and the bus has them.
        """
        lease = Lease(NAME, self._owner, self._epoch or 0)
        following = await asyncio.to_thread(
            self._database.write, lambda tx: record(tx, done, lease, limit=_BATCH), durable=False
        )
        self._bus.stored(done)
        return following

    async def _read_sequences(self, rows: Sequence[OutboxRow]) -> None:
        if len(self._last) > _SUBJECTS:
            self._last.clear()
        unknown = {row.message.subject for row in rows} - self._last.keys()
        if unknown:
            found = await self._database.run("read", lambda tx: last_sequences(tx, unknown))
            self._last.update(found)
