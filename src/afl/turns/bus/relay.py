"""The relay: publishes what is in the outbox, in order and once. Every process has one; one at a time is at work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from afl.kernel.backoff import Backoff
from afl.kernel.cancelling import cancel_and_wait
from afl.kernel.database import Database
from afl.kernel.errors import FencedError, StoreError
from afl.kernel.lease import RUN_LEASE_MS
from afl.kernel.notify import Notifier, Subscription, open_notifier
from afl.kernel.presence.base import Life
from afl.turns.bus import outbox
from afl.turns.bus.base import Bus
from afl.turns.bus.outbox import Lease, Left, Q
from afl.turns.bus.publishing import Publishing

NAME = "turns"
_LOOK_SECONDS = 1.0
_SPACING_SECONDS = 0.005  # on SQLite every commit notifies, and most are of no concern here
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
        self, database: Database, bus: Bus, notifier: Notifier | None = None, *, lease_ms: int = RUN_LEASE_MS
    ) -> None:
        self._database = database
        self._publishing = Publishing(database, bus)
        self._notifier = notifier
        self._own_notifier = notifier is None
        self._lease_ms = lease_ms
        self._owner = ""
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        self._epoch: int | None = None  # of the lease, while this relay has it
        self._renew_at = self._prune_at = 0.0
        self._look_at = self._looked_at = 0.0
        self._failures = 0
        self._closing = False

    async def start(self) -> None:
        if self._notifier is None:
            self._notifier = open_notifier(self._database)
        # Outside of any transaction: the first question for it takes the liveness lock.
        self._owner = await asyncio.to_thread(lambda: self._database.presence.id)
        self._subscription = self._notifier.subscribe([outbox.TOPIC])
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """End what is under way, and let somebody else go on at once."""
        self._closing = True
        if self._subscription is not None:
            self._subscription.wake()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_FAREWELL_SECONDS)
            await cancel_and_wait([self._task])
        if self._subscription is not None:
            self._subscription.close()
        if self._epoch is not None:
            await self._farewell()
            self._epoch = None
        if self._own_notifier and self._notifier is not None:
            self._notifier.close()
            self._notifier = None
        self._publishing.close()

    async def _farewell(self) -> None:
        """The next relay need not find out what this one has published."""
        try:
            await self._publishing.record(self._lease())
        except FencedError:
            return  # it has found out already
        await self._database.run("write", lambda tx: tx.run(Q.drop_relay, name=NAME, owner=self._owner))

    def poke(self, left: Sequence[Left] = ()) -> None:
        """There is something in the outbox, of a transaction that has committed; `left`, when that is all of it."""
        if self._epoch is not None and self._subscription is not None:
            if left:
                self._publishing.hand(left)
            else:
                self._look_at = 0.0
            self._subscription.wake()
        elif self._notifier is not None:
            self._notifier.notify(outbox.TOPIC)

    async def _work(self) -> None:
        assert self._subscription is not None
        while not self._closing:
            delay = _LOOK_SECONDS
            try:
                if await self._hold():
                    await self._round()
                    delay = self._publishing.patience(self._patience())
                self._failures = 0
            except FencedError:
                self._epoch, self._look_at = None, 0.0
                self._publishing.forget()
            except StoreError as error:
                delay = self._failed(error)
            except Exception as error:  # whatever it is, the next round must not be the last
                _log.exception("the relay stumbled")
                delay = self._failed(error)
            if await self._subscription.wait_async(delay):
                self._look_at = min(self._look_at, self._looked_at + _SPACING_SECONDS)

    async def _round(self) -> None:
        """Publish what was handed over; look for what was not when that is due, or must come before."""
        if self._patience() > 0 and await self._publishing.publish_handed(self._lease()):
            if await self._publishing.record_when_due(self._lease()):
                await self._publish_all()
            return
        self._looked_at = asyncio.get_running_loop().time()
        self._look_at = self._looked_at + _LOOK_SECONDS  # a notification may be lost
        await self._publish_all()

    def _patience(self) -> float:
        """For how many seconds no look is due."""
        return max(0.0, self._look_at - asyncio.get_running_loop().time())

    def _failed(self, error: Exception) -> float:
        """How long to wait; it is told once per outage."""
        self._failures += 1
        self._look_at = 0.0
        self._publishing.forget()
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
            self._publishing.forget()
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
        rows = await self._publishing.find(self._lease())
        while rows:
            rows = await self._publishing.publish(rows, self._lease())
            self._failures = 0
            if rows and not await self._hold():
                return

    def _lease(self) -> Lease:
        return Lease(NAME, self._owner, self._epoch or 0)
