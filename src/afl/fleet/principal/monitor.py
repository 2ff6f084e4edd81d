"""Notices agents that fell silent: looks when the first lease ends, and every few seconds anyhow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from afl.fleet.principal.desk import Desk
from afl.fleet.principal.judging import LIMIT, Verdict, expired, judge_runs, spare_all
from afl.fleet.principal.registry import Agent
from afl.fleet.principal.store import Change, Q
from afl.fleet.statuses import Status
from afl.kernel.database import Transaction
from afl.kernel.errors import StoreError
from afl.kernel.isolation import Isolation

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
        self._apart = Isolation(_log, "the monitor")

    async def start(self) -> None:
        """Nobody was heard while this principal was away: it waits one timeout before it judges."""
        await self._desk.change(spare_all)
        await self._desk.store.read_soon(self._desk.registry.load)

    async def serve(self) -> None:
        """Until cancelled."""
        while True:
            pause = self._longest_s
            try:
                with self._apart.item("this look"):
                    pause = await self.look()
            except StoreError as error:
                _log.error("the monitor waits for the store: %s", error)
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Judge what is due, save who was heard; how long until the next look, in seconds."""
        while True:
            due, self._planned = await self._desk.change(self._find_due)
            judged = len(due) and await self._judge(due)
            if judged < LIMIT:
                break
        await self._save_agents()
        pause, self._planned = await self._desk.store.read_soon(self._pause)
        return pause

    async def _judge(self, run_ids: list[str]) -> int:
        """How many were decided; one that cannot be decided holds up no other."""
        judged = 0

        async def decide(some: Sequence[str]) -> None:
            nonlocal judged
            verdicts = await self._desk.change(lambda change: judge_runs(change, some))
            judged += len(verdicts)
            for verdict in verdicts:
                self._tell(verdict)

        await self._apart.together(run_ids, decide, lambda run_id: f"run {run_id}")
        return judged

    async def _save_agents(self) -> None:
        due = self._desk.registry.due()

        async def save(some: Sequence[Agent]) -> None:
            await self._desk.change(lambda change: self._desk.registry.save(change, some))

        if due:
            await self._apart.together(due, save, lambda agent: f"agent {agent.agent_id}")
        for agent in due:
            agent.saved = agent.last_seen

    def _find_due(self, change: Change) -> tuple[list[str], float]:
        """The runs to be judged, and when that is."""
        if self._planned is not None and change.moment - self._planned > self._late_ms:
            _log.warning(
                "nobody was heard for %.1f s: every agent has a heartbeat timeout to be heard again",
                (change.moment - self._planned) / 1000,
            )
            spare_all(change)
        return expired(change), change.moment

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
