"""Where a circuit breaker stands, and what every place that keeps its state can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from afl.coordination.breaker_config import CircuitBreakerState

Outcome = Literal["success", "failure", "none"]
COUNTS = ("total_calls", "failed_calls", "successful_calls", "rejected_calls", "state_changes")


@dataclass(frozen=True, slots=True)
class Standing:
    """The state after a transition; times are milliseconds of the clock of whoever keeps it."""

    permitted: bool
    state: CircuitBreakerState
    epoch: int
    failure_count: int
    successes: int
    running: int
    changed_at: int  # 0: never
    forced: bool
    retry_after: int  # until it is half open; -1: somebody has to say so
    now: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the calls; the times are milliseconds since 1970, 0: never."""

    counts: Mapping[str, int]
    last_failure_time: int = 0
    last_success_time: int = 0


class BreakerKeeper(Protocol):
    """Keeps the state of one breaker; each method is one transition.

    A call that entered leaves with the standing it was given: what it came to moves the state only if the circuit has
    not changed since (the epoch), and in a half-open episode only if it still has its place (the lease).
    """

    async def enter(self, call_id: str) -> Standing:
        """Ask to call; `permitted` is the answer. A half-open circuit gives a place on lease."""

    async def leave(self, call_id: str, entered: Standing, outcome: Outcome) -> Standing:
        """Tell what came of it; "none" when nothing is known, as after a cancellation."""

    async def renew(self, call_id: str, entered: Standing) -> bool:
        """Keep a half-open place; False when it is lost."""

    async def force(self, state: Literal["open", "closed"]) -> Standing:
        """Open until somebody closes it, or closed with nothing counted."""

    async def reset(self) -> Standing:
        """As new: closed, nothing counted, no metrics."""

    async def look(self) -> tuple[Standing, Counts]:
        """How it stands now; changes nothing."""
