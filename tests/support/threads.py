"""Threads that began meanwhile: those of earlier tests may end at any moment, and are nobody's business."""

from __future__ import annotations

import threading
from collections.abc import Callable


def newcomers(prefix: str = "") -> Callable[[], list[str]]:
    """Asks for the names of the threads that run and did not when this was called."""
    before = set(threading.enumerate())
    return lambda: [
        each.name for each in threading.enumerate() if each not in before and each.name.startswith(prefix)
    ]
