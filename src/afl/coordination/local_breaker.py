"""A circuit breaker's state in this process: for programs without Redis, and while Redis is unavailable.

The same state machine as lua/breaker.lua, for one process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import copy
from typing import Literal

from afl.coordination.breaker_config import (
    COUNTS,
    BreakerStatus,
    CircuitBreakerConfig,
    CircuitBreakerState,
    Counts,
    Outcome,
)

CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN
BUCKETS = 20


def steady_clock() -> Callable[[], int]:
    """Milliseconds since 1970 that never jump: the wall clock is read once."""
    begin = time.time() - time.monotonic()
    return lambda: int((begin + time.monotonic()) * 1000)


class LocalBreaker:
    """A `BreakerStore`. Its methods never await, so they are atomic."""

    def __init__(self, config: CircuitBreakerConfig, clock: Callable[[], int] | None = None) -> None:
        self._config = config.milliseconds()
        self._clock = steady_clock() if clock is None else clock
        self._state = CLOSED
        self._epoch = 0
        self._failures = 0
        self._successes = 0
        self._changed_at = 0
        self._forced = False
        self._slots: dict[str, int] = {}
        self._window: dict[int, list[int]] = {}  # bucket -> [calls, failures]
        self._counts = dict.fromkeys(COUNTS, 0)
        self._last = {"failure": 0, "success": 0}

    async def enter(self, call_id: str) -> BreakerStatus:
        self._counts["total_calls"] += 1
        now = self._settle()
        permitted = self._has_room()
        if permitted and self._state is HALF_OPEN:
            self._slots[call_id] = self._lease_end(now)
        if not permitted:
            self._counts["rejected_calls"] += 1
        return self._standing(now, permitted)

    async def leave(self, call_id: str, entered: BreakerStatus, outcome: Outcome) -> BreakerStatus:
        now = self._clock()
        if outcome != "none":
            self._counts["failed_calls" if outcome == "failure" else "successful_calls"] += 1
            self._last[outcome] = now
        self._lapse(now)
        if self._epoch == entered.epoch:
            if self._state is HALF_OPEN:
                self._leave_half_open(call_id, outcome, now)
            elif outcome != "none":
                self._leave_closed(outcome == "failure", now)
        return self._standing(now, True)

    async def renew(self, call_id: str, entered: BreakerStatus) -> bool:
        now = self._clock()
        self._lapse(now)
        if self._epoch != entered.epoch or self._slots.get(call_id, 0) <= now:
            return False
        self._slots[call_id] = self._lease_end(now)
        return True

    async def force(self, state: Literal["open", "closed"]) -> BreakerStatus:
        now = self._clock()
        changes = self._counts["state_changes"] + (self._state != state)
        self._move(CircuitBreakerState(state), now)
        self._counts["state_changes"] = changes
        self._forced = self._state is OPEN
        return self._standing(now, True)

    async def reset(self) -> BreakerStatus:
        now = self._clock()
        self._move(CLOSED, now)
        self._counts = dict.fromkeys(COUNTS, 0)
        self._last = {"failure": 0, "success": 0}
        return self._standing(now, True)

    async def look(self) -> tuple[BreakerStatus, Counts]:
        seen = copy(self)  # reading does not start the half-open state
        seen._counts = dict(self._counts)
        now = seen._settle()
        if seen._state is CLOSED and self._config["window"]:
            seen._failures, _ = seen._judge_window(now)
        counts = Counts(dict(self._counts), self._last["failure"], self._last["success"])
        return seen._standing(now, seen._has_room()), counts

    def adopt(self, seen: BreakerStatus) -> None:
        """Continue from the last known status of an unavailable store."""
        now, changes = self._clock(), self._counts["state_changes"]
        self._move(seen.state, now - max(0, seen.now - seen.changed_at) if seen.changed_at else 0)
        self._counts["state_changes"] = changes
        self._failures, self._successes, self._forced = seen.failure_count, seen.successes, seen.forced

    @property
    def epoch(self) -> int:
        """Incremented by every change of state."""
        return self._epoch

    def _settle(self) -> int:
        """Apply the changes that are due by time; the current time."""
        now = self._clock()
        self._lapse(now)
        if self._state is OPEN and not self._forced and now >= self._changed_at + self._config["timeout"]:
            self._move(HALF_OPEN, now)
        return now

    def _lapse(self, now: int) -> None:
        """An undecided half-open state has timed out; the circuit is open since then."""
        end = self._changed_at + self._config["recovery"]
        if self._state is HALF_OPEN and now >= end:
            self._move(OPEN, end)
        self._slots = {each: until for each, until in self._slots.items() if until > now}

    def _move(self, state: CircuitBreakerState, at: int) -> None:
        self._state, self._changed_at, self._forced = state, at, False
        self._epoch = max(self._epoch + 1, at)
        self._failures = self._successes = 0
        self._slots, self._window = {}, {}
        self._counts["state_changes"] += 1

    def _has_room(self) -> bool:
        if self._state is HALF_OPEN:
            return self._successes + len(self._slots) < int(self._config["max_calls"])
        return self._state is CLOSED

    def _lease_end(self, now: int) -> int:
        return int(min(now + self._config["lease"], self._changed_at + self._config["recovery"]))

    def _leave_half_open(self, call_id: str, outcome: Outcome, now: int) -> None:
        if self._slots.pop(call_id, None) is None or outcome == "none":
            return
        if outcome == "failure":
            self._move(OPEN, now)
            return
        self._successes += 1
        if self._successes >= self._config["successes"]:
            self._move(CLOSED, now)

    def _leave_closed(self, failed: bool, now: int) -> None:
        if self._config["window"]:
            bucket = self._window.setdefault(now // self._bucket_size(), [0, 0])
            bucket[0] += 1
            bucket[1] += failed
            self._failures, enough = self._judge_window(now)
        else:
            self._failures = self._failures + 1 if failed else 0
            enough = self._failures >= self._config["threshold"]
        if failed and enough:
            self._move(OPEN, now)

    def _judge_window(self, now: int) -> tuple[int, bool]:
        """The failures within the window, and whether they suffice; drops old buckets."""
        oldest = now // self._bucket_size() - BUCKETS + 1
        self._window = {number: bucket for number, bucket in self._window.items() if number >= oldest}
        total = sum(bucket[0] for bucket in self._window.values())
        failed = sum(bucket[1] for bucket in self._window.values())
        return failed, failed >= self._config["threshold"] and failed >= self._config["rate"] * total

    def _bucket_size(self) -> int:
        return math.ceil(int(self._config["window"]) / BUCKETS)

    def _standing(self, now: int, permitted: bool) -> BreakerStatus:
        after = 0
        if self._state is OPEN:
            after = -1 if self._forced else self._changed_at + self._config["timeout"] - now
        return BreakerStatus(
            permitted,
            self._state,
            self._epoch,
            self._failures,
            self._successes,
            len(self._slots),
            self._changed_at,
            self._forced,
            after,
            now,
        )
