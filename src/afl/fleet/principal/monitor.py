"""Expires the leases of agents that are silent: checks when the next lease ends, and every few seconds in any case."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afl.fleet.messages import Status
from afl.fleet.principal.context import Desk
from afl.fleet.principal.registry import Agent
from afl.fleet.principal.reports import crash
from afl.fleet.principal.runs import finish, requeue
from afl.fleet.principal.store import Change, Q
from afl.kernel.database import Row, Transaction
from afl.kernel.errors import StoreError
from afl.kernel.isolation import Isolation

LIMIT = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided of one run."""

    run_id: str
    agent_id: str
    status: Status  # PENDING: it is queued again
    crashed: bool


def judge(change: Change, limit: int = LIMIT) -> list[Verdict]:
    """Decide every run whose lease has ended; call it again while it returns `limit`."""
    return judge_runs(change, expired(change, limit))


def expired(change: Change, limit: int = LIMIT) -> list[str]:
    """The runs whose lease has ended."""
    return [run["run_id"] for run in change.tx.all(Q.expired, moment=change.moment, limit=limit)]


def judge_runs(change: Change, run_ids: Iterable[str]) -> list[Verdict]:
    """Decide those of the runs whose lease has ended."""
    found = [change.tx.one(Q.lock_run, run_id=run_id) for run_id in run_ids]
    return [_judge(change, run) for run in found if run is not None and _is_expired(change, run)]


def spare_all(change: Change) -> None:
    """A principal that starts heard nobody while it was away: every holder gets a full lease."""
    change.tx.run(Q.spare_all, lease_until=change.lease_until)


def _is_expired(change: Change, run: Row) -> bool:
    return bool(run["incarnation"]) and run["lease_until"] < change.moment


def _judge(change: Change, run: Row) -> Verdict:
    error = f"agent {run['agent_id']} was lost"
    if run["status"] == Status.RUNNING:
        return Verdict(run["run_id"], run["agent_id"], crash(change, run, error), crashed=True)
    # It was never started, so to hand it to somebody else is no second attempt.
    if run["cancel_reason"] is not None:
        finish(change, run, Status.CANCELLED, error=error)
        return Verdict(run["run_id"], run["agent_id"], Status.CANCELLED, crashed=False)
    requeue(change, run, run["requeued"])
    return Verdict(run["run_id"], run["agent_id"], Status.PENDING, crashed=False)


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
