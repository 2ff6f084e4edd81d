"""Places where a test may kill the process: `AFL_CRASH_AT=name:3` kills it (SIGKILL) the third time it gets there.

Without the variable a place costs one comparison. The names are listed in POINTS, those of bridges in
BRIDGE_POINTS, so that tests can visit all.
"""

from __future__ import annotations

import os
import signal

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

_name, _, _count = os.environ.get("AFL_CRASH_AT", "").partition(":")
_left = int(_count or "1")


def reach(name: str) -> None:
    """Die here if a test asked for it."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
