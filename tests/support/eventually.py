"""Waiting for something that other processes bring about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0  # a deadline for tests that would hang; nothing is expected to take that long
_LOOK_SECONDS = 0.01


def eventually(look: Callable[[], T | None], told: Callable[[], object] | None = None) -> T:
    """The first answer that is true; fails, with what is `told` then, when there is none for a long time."""
    until = time.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while not (answer := look()):
        if time.monotonic() > until:
            raise AssertionError(f"it never came about: {told() if told is not None else look}")
        pause.wait(_LOOK_SECONDS)
    return answer
