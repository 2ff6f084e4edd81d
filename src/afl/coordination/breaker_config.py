"""The configuration and the state of a circuit breaker, and the interface of the stores that keep its state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from afl.coordination.errors import BreakerInputError

_DAY_S = 86_400.0


class CircuitBreakerState(StrEnum):
    """Calls pass, are refused, or a limited number is let through as a test."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerMode(StrEnum):
    """What is counted while the circuit is closed."""

    CONSECUTIVE = "consecutive"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class CircuitBreakerConfig:
    """Validated on construction: an invalid value is a BreakerInputError.

    failure_threshold         failures that open the circuit: in a row, or within the window
    timeout_seconds           how long it stays open before a test call is let through
    recovery_timeout_seconds  how long the half-open state may last; undecided until then, it opens again
    half_open_max_calls       how many test calls are let through
    success_threshold         how many of them must succeed for the circuit to close
    mode                      "consecutive": a success resets the count; "window": see below
    window_seconds            the window: only calls that ended in this time count
    failure_rate              the window opens the circuit only if this share of its calls failed
    slot_lease_seconds        a half-open call whose process died releases its slot after this time
    """

    failure_threshold: int = 5
    timeout_seconds: float = 60
    recovery_timeout_seconds: float = 300
    half_open_max_calls: int = 3
    success_threshold: int = 2
    mode: BreakerMode = BreakerMode.CONSECUTIVE
    window_seconds: float = 60
    failure_rate: float = 0.5
    slot_lease_seconds: float = 10

    def __post_init__(self) -> None:
        for name in ("failure_threshold", "half_open_max_calls", "success_threshold"):
            _require_count(name, getattr(self, name))
        for name in ("timeout_seconds", "recovery_timeout_seconds", "window_seconds", "slot_lease_seconds"):
            _require_seconds(name, getattr(self, name))
        if self.success_threshold > self.half_open_max_calls:
            raise BreakerInputError(
                f"success_threshold is {self.success_threshold} and half_open_max_calls {self.half_open_max_calls}; "
                "a circuit that lets through fewer calls than it asks successes of could never close"
            )
        if not 0 <= self.failure_rate <= 1:
            raise BreakerInputError(f"failure_rate is {self.failure_rate!r}; expected a share from 0 to 1")
        if self.mode not in list(BreakerMode):
            raise BreakerInputError(f"mode is {self.mode!r}; expected consecutive or window")

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "mode": BreakerMode(self.mode).value}

    def milliseconds(self) -> dict[str, Any]:
        """In the units of the transitions: whole milliseconds, none of them 0."""
        return {
            "threshold": self.failure_threshold,
            "timeout": _milliseconds(self.timeout_seconds),
            "recovery": _milliseconds(self.recovery_timeout_seconds),
            "max_calls": self.half_open_max_calls,
            "successes": self.success_threshold,
            "window": _milliseconds(self.window_seconds) if self.mode == BreakerMode.WINDOW else 0,
            "rate": self.failure_rate,
            "lease": _milliseconds(self.slot_lease_seconds),
            # The state of an unused breaker expires, but not while it still matters.
            "keep": _milliseconds(
                max(_DAY_S, 2 * (self.timeout_seconds + self.recovery_timeout_seconds + self.window_seconds))
            ),
        }


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _require_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BreakerInputError(f"{name} is {value!r}; expected a whole number of at least 1")


def _require_seconds(name: str, value: Any) -> None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or value <= 0:
        raise BreakerInputError(f"{name} is {value!r}; expected seconds, more than 0")


Outcome = Literal["success", "failure", "none"]
COUNTS = ("total_calls", "failed_calls", "successful_calls", "rejected_calls", "state_changes")


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """The state after a transition; times are milliseconds of the store's clock."""

    permitted: bool
    state: CircuitBreakerState
    epoch: int
    failure_count: int
    successes: int
    running: int
    changed_at: int  # 0: never
    forced: bool
    retry_after: int  # until it is half open; -1: forced open
    now: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of calls; times are milliseconds since 1970, 0: never."""

    counts: Mapping[str, int]
    last_failure_time: int = 0
    last_success_time: int = 0


class BreakerStore(Protocol):
    """Stores the state of one breaker; each method is one transition.

    A call that entered leaves with the status it was given: its outcome changes the state only if the circuit has not
    changed since (the epoch), and in the half-open state only if it still has its slot (the lease).
    """

    async def enter(self, call_id: str) -> BreakerStatus:
        """Request a call; `permitted` is the answer. A half-open circuit leases a slot."""

    async def leave(self, call_id: str, entered: BreakerStatus, outcome: Outcome) -> BreakerStatus:
        """Report the outcome; "none" when it is unknown, as after a cancellation."""

    async def renew(self, call_id: str, entered: BreakerStatus) -> bool:
        """Renew the lease of a half-open slot; False when it is lost."""

    async def force(self, state: Literal["open", "closed"]) -> BreakerStatus:
        """Force the circuit open until it is closed by hand, or closed with empty counts."""

    async def reset(self) -> BreakerStatus:
        """Reset: closed, empty counts, no metrics."""

    async def look(self) -> tuple[BreakerStatus, Counts]:
        """The current status; changes nothing."""
