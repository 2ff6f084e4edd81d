"""Ctrl-C while a run is under way, and threads that do not end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from afl.kernel.observing import stop_tracing

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


_NAMES = ("afl-model", "afl-tool")
_PATIENCE_SECONDS = 1.0  # for those that are just about to end


@contextmanager
def left_behind() -> Iterator[None]:
    """When the block has come to its end, so does the process if calls that were given up still run in it."""
    before = set(threading.enumerate())
    yield
    begun = [thread for thread in threading.enumerate() if thread not in before]
    busy = [thread for thread in begun if thread.name.startswith(_NAMES)]
    for thread in busy:
        thread.join(_PATIENCE_SECONDS / len(busy))
    if any(thread.is_alive() for thread in busy):
        sys.stdout.flush()
        sys.stderr.flush()
        stop_tracing()
        os._exit(0)
