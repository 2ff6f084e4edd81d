"""Expires the leases of agents that are silent: checks when the next lease ends, and every few seconds in any case."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afl.fleet.messages import Status
from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.registry import Agent
from afl.fleet.principal.reports import crash
from afl.fleet.principal.runs import finish, requeue
from afl.fleet.principal.store import Change, Q
from afl.kernel.database import Row, Transaction
from afl.kernel.errors import StoreError
from afl.kernel.isolation import Isolation

LIMIT = 100


@dataclass(frozen=True, slots=True)
class ExpiredRun:
    """What became of a run whose lease expired."""

    run_id: str
    agent_id: str
    status: Status  # PENDING: it is queued again
    crashed: bool


def expire(change: Change, limit: int = LIMIT) -> list[ExpiredRun]:
    """Expire every run whose lease has ended; call it again while it returns `limit`."""
    return expire_runs(change, expired(change, limit))


def expired(change: Change, limit: int = LIMIT) -> list[str]:
    """The runs whose lease has ended."""
    return [run["run_id"] for run in change.tx.all(Q.expired, moment=change.moment, limit=limit)]


def expire_runs(change: Change, run_ids: Iterable[str]) -> list[ExpiredRun]:
    """Expire those of the runs whose lease has ended."""
    found = [change.tx.one(Q.lock_run, run_id=run_id) for run_id in run_ids]
    return [_expire(change, run) for run in found if run is not None and _is_expired(change, run)]


def renew_all(change: Change) -> None:
    """A starting principal has received no heartbeats: every holder gets a full lease."""
    change.tx.run(Q.renew_all, lease_until=change.lease_until)


def _is_expired(change: Change, run: Row) -> bool:
    return bool(run["incarnation"]) and run["lease_until"] < change.moment


def _expire(change: Change, run: Row) -> ExpiredRun:
    error = f"agent {run['agent_id']} was lost"
    if run["status"] == Status.RUNNING:
        return ExpiredRun(run["run_id"], run["agent_id"], crash(change, run, error), crashed=True)
    # It was never started, so assigning it to another agent is not a second attempt.
    if run["cancel_reason"] is not None:
        finish(change, run, Status.CANCELED, error=error)
        return ExpiredRun(run["run_id"], run["agent_id"], Status.CANCELED, crashed=False)
    requeue(change, run, run["requeued"])
    return ExpiredRun(run["run_id"], run["agent_id"], Status.PENDING, crashed=False)


_log = logging.getLogger(__name__)
_LONGEST_SLEEP_S = 5.0


class Monitor:
    """A run counts as crashed when its agent was silent for longer than the heartbeat timeout.

    A check that runs much later than planned means that this process was suspended, or its store unavailable, and that
    heartbeats were missed. Then every agent gets a full timeout again, measured by the store's clock as leases are.
    """

    def __init__(self, context: PrincipalContext) -> None:
        self._context = context
        # A lease taken while it sleeps ends after the sleep, so no expiry is noticed late.
        self._longest_s = min(_LONGEST_SLEEP_S, context.store.lease_ms / 1000)
        # A live agent renews its leases after a third of their time, so a shorter delay expires none.
        self._max_delay_ms = context.store.lease_ms / 4
        self._planned: float | None = None  # when the next check is due, by the store's clock
        self._isolation = Isolation(_log, "the monitor")

    async def start(self) -> None:
        """Renew all leases: no heartbeats were received while the principal was stopped."""
        await self._context.change(renew_all)
        await self._context.store.read_async(self._context.registry.load)

    async def serve(self) -> None:
        """Run until canceled."""
        while True:
            pause = self._longest_s
            try:
                with self._isolation.item("this look"):
                    pause = await self.look()
            except StoreError as error:
                _log.error("the monitor waits for the store: %s", error)
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Expire what is due, save the agents; how long until the next check, in seconds."""
        while True:
            due, self._planned = await self._context.change(self._find_due)
            count = len(due) and await self._expire(due)
            if count < LIMIT:
                break
        await self._save_agents()
        pause, self._planned = await self._context.store.read_async(self._pause)
        return pause

    async def _expire(self, run_ids: list[str]) -> int:
        """The number of expired runs; one that fails does not delay the others."""
        count = 0

        async def decide(some: Sequence[str]) -> None:
            nonlocal count
            expired_runs = await self._context.change(lambda change: expire_runs(change, some))
            count += len(expired_runs)
            for expired_run in expired_runs:
                self._log_expired(expired_run)

        await self._isolation.batch(run_ids, decide, lambda run_id: f"run {run_id}")
        return count

    async def _save_agents(self) -> None:
        due = self._context.registry.due()

        async def save(some: Sequence[Agent]) -> None:
            await self._context.change(lambda change: self._context.registry.save(change, some))

        if due:
            await self._isolation.batch(due, save, lambda agent: f"agent {agent.agent_id}")
        for agent in due:
            agent.saved = agent.last_seen

    def _find_due(self, change: Change) -> tuple[list[str], float]:
        """The runs to expire, and the time of the store."""
        if self._planned is not None and change.moment - self._planned > self._max_delay_ms:
            _log.warning(
                "no heartbeats were received for %.1f s: every agent gets a full heartbeat timeout",
                (change.moment - self._planned) / 1000,
            )
            renew_all(change)
        return expired(change), change.moment

    def _log_expired(self, expired_run: ExpiredRun) -> None:
        if expired_run.crashed:
            self._context.registry.drop(expired_run.agent_id)
        ending = "queued again" if expired_run.status is Status.PENDING else expired_run.status.value
        _log.warning("agent %s was lost; run %s is %s", expired_run.agent_id, expired_run.run_id, ending)

    def _pause(self, tx: Transaction) -> tuple[float, float]:
        """How long until the next check, in seconds, and its time."""
        moment, pause = self._context.store.moment(tx), self._longest_s
        row = tx.one(Q.next_expiry)
        if row is not None and row["moment"] is not None:
            left: int = row["moment"] - moment + 1
            pause = min(pause, max(0.01, left / 1000))
        return pause, moment + pause * 1000
