"""Places where a test may kill the process: `AFL_CRASH_AT=name:3` kills it (SIGKILL) the third time it gets there.

`watch` calls a function there instead. Without either a place costs one comparison. The names are listed in POINTS,
those of bridges in BRIDGE_POINTS, so that tests can visit all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS = (
    "commit.before",
    "commit.after",
    "handler.before",
    "handler.after",
    "deliver.before",
    "finish.before",
    "finish.after",
    "claim.after",
    "take.after",
)

BRIDGE_POINTS = (
    "bridge.hand_over",
    "bridge.begin",
    "bridge.begun",
    "bridge.settle",
    "bridge.settled",
)

_visit: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Die here if a test asked for it."""
    if _visit is not None:
        _visit(name)


def watch(visit: Callable[[str], None]) -> None:
    """Call a function with the name of each place that this process gets to, from any thread."""
    global _visit
    _visit = visit


def _kill_at(wanted: str, count: int) -> Callable[[str], None]:
    left = count

    def visit(name: str) -> None:
        nonlocal left
        if name == wanted:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return visit


if _asked := os.environ.get("AFL_CRASH_AT", ""):
    _wanted, _, _count = _asked.partition(":")
    watch(_kill_at(_wanted, int(_count or "1")))
