"""The event loop on which providers are called: one per process, on a thread of its own.

The connections of an async client belong to the loop that made them, and models are called by any thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from afl.kernel.joinable_thread import JoinableThread

T = TypeVar("T")
_guard = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the loop, with the context of the caller."""
    return asyncio.run_coroutine_threadsafe(coroutine, _running())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns; it is canceled when the caller is interrupted."""
    future = submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _guard:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            JoinableThread(_loop.run_forever, "afl-provider-loop").start()
        return _loop


def _forget() -> None:
    """In a forked child: the thread of the loop is the parent's."""
    global _loop, _guard
    _loop, _guard = None, threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
