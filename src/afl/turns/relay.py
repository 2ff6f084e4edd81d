"""The relay: publishes what is in the outbox, in order and once. Every process has one; one at a time is at work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from afl.kernel.backoff import Backoff
from afl.kernel.database import Database
from afl.kernel.doorbell import Doorbell, Ear, open_doorbell
from afl.kernel.errors import FencedError, StoreError
from afl.kernel.lease import LEASE_MS
from afl.kernel.presence.base import Life
from afl.turns import outbox
from afl.turns.alone import Alone
from afl.turns.bus.base import Bus, Published
from afl.turns.outbox import Q, Stored

NAME = "turns"
_ROWS = 256
_SUBJECTS = 10_000
_LOOK_SECONDS = 1.0
_FAREWELL_SECONDS = 2.0
_KEPT_MS = 24 * 3600 * 1000  # commands, as long as a server would keep them
_PRUNE_SECONDS = 600.0
_AGAIN = Backoff(0.1, cap=2.0)
_log = logging.getLogger(__name__)


class Relay:
    """Takes the lease when it is free, and publishes while it has it.

    Recording what was published is fenced by the lease. A relay that lost it and does not know may publish once more;
    the expected sequence of the subject finds it out.
    """

    def __init__(
        self, database: Database, bus: Bus, bell: Doorbell | None = None, *, lease_ms: int = LEASE_MS
    ) -> None:
        self._database = database
        self._alone = Alone(database)
        self._bus = bus
        self._bell = bell
        self._own_bell = bell is None
        self._lease_ms = lease_ms
        self._owner = ""
        self._ear: Ear | None = None
        self._task: asyncio.Task[None] | None = None
        self._epoch: int | None = None  # of the lease, while this relay has it
        self._renew_at = self._prune_at = 0.0
        self._failures = 0
        self._closing = False
        self._last: dict[str, int] = {}  # the last sequence of each subject, as this relay left it

    async def start(self) -> None:
        if self._bell is None:
            self._bell = open_doorbell(self._database)
        # Outside of any transaction: the first question for it takes the liveness lock.
        self._owner = await asyncio.to_thread(lambda: self._database.presence.id)
        self._ear = self._bell.listen([outbox.TOPIC])
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """End what is under way, and let somebody else go on at once."""
        self._closing = True
        if self._ear is not None:
            self._ear.wake()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_FAREWELL_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._ear is not None:
            self._ear.close()
        if self._epoch is not None:
            await self._database.run("write", lambda tx: tx.run(Q.drop_relay, name=NAME, owner=self._owner))
            self._epoch = None
        if self._own_bell and self._bell is not None:
            self._bell.close()
            self._bell = None
        self._alone.close()

    def poke(self) -> None:
        """There is something in the outbox, of a transaction that has committed."""
        if self._epoch is not None and self._ear is not None:
            self._ear.hear([outbox.TOPIC])
        elif self._bell is not None:
            self._bell.ring(outbox.TOPIC)

    async def _work(self) -> None:
        assert self._ear is not None
        while not self._closing:
            delay = _LOOK_SECONDS
            try:
                if await self._hold():
                    await self._publish_all()
                self._failures = 0
            except FencedError:
                self._epoch = None
            except StoreError as error:
                delay = self._failed(error)
            except Exception as error:  # whatever it is, the next round must not be the last
                _log.exception("the relay stumbled")
                delay = self._failed(error)
            await self._ear.wait_async(delay)

    def _failed(self, error: Exception) -> float:
        """How long to wait; it is told once per outage."""
        self._failures += 1
        self._last.clear()
        _log.log(
            logging.WARNING if self._failures == 1 else logging.DEBUG,
            "the relay cannot publish: %r; trying again",
            error,
        )
        return _AGAIN.delay(self._failures)

    async def _hold(self) -> bool:
        """Whether this relay has the lease; it is taken, or renewed, when that is due."""
        now = asyncio.get_running_loop().time()
        if self._epoch is not None and now < self._renew_at:
            return True
        dead = await self._dead()
        row = await self._database.run(
            "write",
            lambda tx: tx.one(Q.take_relay, name=NAME, owner=self._owner, lease_ms=self._lease_ms, dead=dead),
        )
        if row is None:
            self._epoch = None
            return False
        if row["epoch"] != self._epoch:
            self._last.clear()
        self._epoch, self._renew_at = row["epoch"], now + self._lease_ms / 3000
        if now >= self._prune_at:
            self._prune_at = now + _PRUNE_SECONDS
            await self._database.run("write", lambda tx: outbox.prune(tx, _KEPT_MS))
        return True

    async def _dead(self) -> list[str]:
        """The holder, if it is proven dead."""
        row = await self._database.run("read", lambda tx: tx.one(Q.relay_row, name=NAME))
        if row is None or row["owner"] in ("", self._owner):
            return []
        proof = await asyncio.to_thread(self._database.presence.proof, row["owner"])
        return [row["owner"]] if proof is Life.DEAD else []

    async def _publish_all(self) -> None:
        """Publish what there is, for as long as the lease is not to be renewed."""
        rows = [Stored.of(row) for row in await self._alone.select(Q.unpublished, limit=_ROWS)]
        while rows:
            await self._learn(rows)
            published = await self._bus.store(rows, self._last)
            rows = await self._record(rows, published)
            if published.error is not None:
                raise StoreError(f"the bus does not take messages: {published.error!r}") from published.error
            self._failures = 0
            if rows and not await self._hold():
                return

    async def _learn(self, rows: Sequence[Stored]) -> None:
        if len(self._last) > _SUBJECTS:  # agents come and go; what is forgotten is learned again
            self._last.clear()
        unknown = {row.message.subject for row in rows} - self._last.keys()
        if unknown:
            found = await self._database.run("read", lambda tx: outbox.last_sequences(tx, unknown))
            self._last.update(found)

    async def _record(self, rows: Sequence[Stored], published: Published) -> list[Stored]:
        """Write down what the bus took; what is to be published next."""
        done = [row for row in rows if row.position in published.sequences]
        if not done:
            return []
        owner, epoch, taken = self._owner, self._epoch or 0, published.sequences
        following = await self._alone.run(
            lambda tx: outbox.record(tx, taken, name=NAME, owner=owner, epoch=epoch, limit=_ROWS)
        )
        if following is None:
            raise FencedError("another relay has taken over")
        for row in done:
            self._last[row.message.subject] = published.sequences[row.position]
        self._bus.stored([replace(row, sequence=taken[row.position]) for row in done])
        return following
