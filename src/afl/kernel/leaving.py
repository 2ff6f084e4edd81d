"""The end of a command, whatever the code that it called has left behind.

The interpreter waits at its end for threads that are no daemons and for child processes of `multiprocessing`. Those of
a handler may never end, so they have a moment; then the process says who they are and goes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from afl.kernel.joinable_thread import JoinableThread

GRACE_SECONDS = 1.0


def leave(code: int) -> None:
    """To be called by a command that is about to end with this exit code."""
    if left_behind():
        JoinableThread(_insist, "afl-leaving", code).start()


def left_behind() -> list[str]:
    """The threads and processes that the interpreter would wait for, each in words."""
    return [*map(_thread_words, _threads()), *_processes()]


def _threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]


def _thread_words(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    at = f" (at {Path(frame.f_code.co_filename).name}:{frame.f_lineno})" if frame is not None else ""
    return f"thread {thread.name}{at}"


def _processes() -> list[str]:
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return []
    children = multiprocessing.active_children()
    return [f"process {each.pid} ({each.name})" for each in children if not each.daemon]


def _insist(code: int) -> None:
    time.sleep(GRACE_SECONDS)
    names = left_behind()
    if not names:  # what is left to do at the end is the interpreter's own
        return
    observing = sys.modules.get("afl.kernel.observing")
    if observing is not None:
        observing.stop_tracing()
    try:
        print(f"Warning: left behind, since they do not end: {', '.join(names)}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    finally:  # the reader of our output may be gone
        os._exit(code)
