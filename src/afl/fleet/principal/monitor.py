"""Notices agents that fell silent: looks when the first lease ends, and every few seconds anyhow."""

from __future__ import annotations

import asyncio
import logging

from afl.fleet.principal.desk import Desk
from afl.fleet.principal.judging import LIMIT, Verdict, judge, spare_all
from afl.fleet.principal.store import Change, Q
from afl.fleet.statuses import Status
from afl.kernel.database import Transaction
from afl.kernel.errors import StoreError

_log = logging.getLogger(__name__)
_LONGEST_SLEEP_S = 5.0


class Monitor:
    """A run counts as crashed when its agent was silent for longer than the heartbeat timeout.

    A look that comes much later than planned means that this process was suspended, or its store away, and heard nobody
    meanwhile. Then every agent gets a full timeout again. The store's clock measures it, since leases end by it.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        # Whatever is taken while it sleeps ends a lease later at the earliest, so nothing is noticed late.
        self._longest_s = min(_LONGEST_SLEEP_S, desk.store.lease_ms / 1000)
        # A live agent renews its leases when a third of their time is over, so a shorter delay ends none.
        self._late_ms = desk.store.lease_ms / 4
        self._planned: float | None = None  # when the next look is due, by the store's clock

    async def start(self) -> None:
        """Nobody was heard while this principal was away: it waits one timeout before it judges."""
        await self._desk.change(spare_all)
        await self._desk.store.read_soon(self._desk.registry.load)

    async def serve(self) -> None:
        """Until cancelled."""
        while True:
            try:
                pause = await self.look()
            except StoreError as error:
                _log.error("the monitor waits for the store: %s", error)
                pause = self._longest_s
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Judge what is due, save who was heard; how long until the next look, in seconds."""
        while True:
            verdicts, self._planned = await self._desk.change(self._judge)
            for verdict in verdicts:
                self._tell(verdict)
            if len(verdicts) < LIMIT:
                break
        due = self._desk.registry.due()
        if due:
            await self._desk.change(lambda change: self._desk.registry.save(change, due))
            for agent in due:
                agent.saved = agent.last_seen
        pause, self._planned = await self._desk.store.read_soon(self._pause)
        return pause

    def _judge(self, change: Change) -> tuple[list[Verdict], float]:
        """What was decided, and when."""
        if self._planned is not None and change.moment - self._planned > self._late_ms:
            _log.warning(
                "nobody was heard for %.1f s: every agent has a heartbeat timeout to be heard again",
                (change.moment - self._planned) / 1000,
            )
            spare_all(change)
        return judge(change), change.moment

    def _tell(self, verdict: Verdict) -> None:
        if verdict.crashed:
            self._desk.registry.drop(verdict.agent_id)
        ending = "queued again" if verdict.status is Status.PENDING else verdict.status.value
        _log.warning("agent %s was lost; run %s is %s", verdict.agent_id, verdict.run_id, ending)

    def _pause(self, tx: Transaction) -> tuple[float, float]:
        """How long until the next look, in seconds, and when that will be."""
        moment, pause = self._desk.store.moment(tx), self._longest_s
        row = tx.one(Q.next_expiry)
        if row is not None and row["moment"] is not None:
            left: int = row["moment"] - moment + 1
            pause = min(pause, max(0.01, left / 1000))
        return pause, moment + pause * 1000
