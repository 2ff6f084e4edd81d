"""Leaving threads behind: a model or a tool that does not return must not keep the process alive."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from afl.kernel.observing import stop_tracing

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
