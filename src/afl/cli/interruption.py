"""Ctrl-C while a run is under way: leave at once. The store has everything, so nothing is lost by that."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


@contextmanager
def leaving_on_interrupt(farewell: Callable[[], None]) -> Iterator[None]:
    """Within, Ctrl-C says farewell and ends the process: handlers in other threads cannot be stopped otherwise."""

    def leave() -> None:
        farewell()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)

    def interrupted(number: int, frame: FrameType | None) -> None:
        # Not here: this thread may hold the very lock that the farewell needs to close the display.
        threading.Thread(target=leave, daemon=True).start()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
