"""Leases: who holds what, and when another may take it; one rule for runs, tasks, turns, DAG runs and messages.

All times are the store's own (`Database.now()`), never a client's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from afl.kernel.presence.base import Life

LEASE_MS = 60_000  # of tasks and running turns: a handler that blocks the interpreter is slow, not dead
RUN_LEASE_MS = 10_000  # of a run's evaluator: evaluation is pure and fenced, so that others may repeat it
MAX_DELIVERIES = 5  # how many holders may die on one thing


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim on one thing. The epoch fences: each takeover increments it, and writes under an older one miss."""

    owner: str
    epoch: int
    until: int

    def ended(self, now: int) -> bool:
        """Whether the lease ran out; its last millisecond still belongs to the holder."""
        return now > self.until

    def due(self, now: int, lease_ms: int = LEASE_MS) -> bool:
        """Whether the holder should renew: a third of the lease has passed."""
        return now >= self.until - lease_ms + lease_ms // 3

    def renewed(self, now: int, lease_ms: int = LEASE_MS) -> Hold:
        """The same hold with a full lease; it never gets shorter by that."""
        return replace(self, until=max(self.until, now + lease_ms))

    def taken_by(self, owner: str, now: int, lease_ms: int = LEASE_MS) -> Hold:
        """The hold of the next owner."""
        return Hold(owner, self.epoch + 1, now + lease_ms)


def first_hold(owner: str, now: int, lease_ms: int = LEASE_MS) -> Hold:
    """The hold on what was never held before."""
    return Hold(owner, 1, now + lease_ms)


def is_free(hold: Hold | None, now: int, life: Life = Life.UNKNOWN) -> bool:
    """Whether anyone may take it: it is not held, its lease ended, or its holder is proven dead.

    A holder that is ALIVE gains nothing by that: a lease that ended has ended.
    """
    return hold is None or hold.ended(now) or life is Life.DEAD
