"""Time: wall-clock milliseconds for people, and a clock that never steps for leases on one machine."""

from __future__ import annotations

import time

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def wall_ms() -> int:
    """Milliseconds since the epoch; for display only, since it may be set back."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Milliseconds since this machine booted, suspended time included; the same in every process on it."""
    return time.clock_gettime_ns(_STEADY) // 1_000_000
