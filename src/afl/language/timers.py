"""What the compiler and the runtime accept as the time of a timer."""

from __future__ import annotations

from datetime import datetime

MAX_SLEEP_MS = 100 * 366 * 86_400_000  # a hundred years


def time_problem(value: object) -> str:
    """What is wrong with the time of a `sys.Until`; empty if nothing is."""
    expected = 'expected an ISO time with its zone, such as "2027-01-31T09:00:00Z"'
    try:
        if datetime.fromisoformat(str(value)).tzinfo is not None:
            return ""
    except ValueError:
        return f"{value!r} is not a time; {expected}"
    return f"{value!r} has no zone; {expected}"
