"""The event loop that coroutine handlers run on: one per process, on a thread of its own.

Async clients, locks and semaphores belong to the loop that first used them. Since all handlers of a process share one
loop, these may be made once, at module level. A worker that is embedded in an asyncio program uses that program's loop;
what runs without threads uses a loop of the calling thread, which is kept for the next call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from afl.kernel.joinable_thread import JoinableThread

T = TypeVar("T")
OnCancel = Callable[[Callable[[], object]], AbstractContextManager[None]]


class _Local(threading.local):
    """What this thread runs coroutines on; with neither, it is the loop of the process."""

    runner: asyncio.Runner | None = None
    loop: asyncio.AbstractEventLoop | None = None
    kept: _KeptRunner | None = None


class _KeptRunner:
    """The runner of a thread, closed when the thread ends."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __del__(self) -> None:
        with suppress(Exception):
            self.runner.close()


@dataclass(slots=True)
class _Returned:
    value: Any = None
    error: BaseException | None = None


_local = _Local()
_guard = threading.Lock()
_process_loop: asyncio.AbstractEventLoop | None = None


def run(coroutine: Coroutine[Any, Any, T], on_cancel: OnCancel | None = None) -> T:
    """What the coroutine returns or raises; asyncio.CancelledError if it was canceled.

    `on_cancel` registers a callback that cancels it, for as long as it runs.
    """
    work = _cancelable(coroutine, on_cancel)
    if _local.runner is not None:
        returned = _local.runner.run(work, context=copy_context())
    else:
        loop = _local.loop or _loop_of_the_process()
        if asyncio._get_running_loop() is loop:
            work.close()
            coroutine.close()
            raise RuntimeError("a coroutine of the handlers' loop cannot wait for another one here; await it")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            returned = future.result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None
        except BaseException:
            future.cancel()  # an interrupt of the caller
            raise
    if returned.error is not None:
        raise returned.error
    value: T = returned.value
    return value


@contextmanager
def in_calling_thread() -> Iterator[None]:
    """Within it, `run` uses a loop of the calling thread, the same one every time."""
    if asyncio._get_running_loop() is not None:  # it is busy
        yield
        return
    if _local.kept is None:
        _local.kept = _KeptRunner()
    before, _local.runner = _local.runner, _local.kept.runner
    try:
        yield
    finally:
        _local.runner = before


@contextmanager
def using(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Within it, `run` uses a loop that runs on another thread; None for that of the process."""
    before, _local.loop = _local.loop, loop
    try:
        yield
    finally:
        _local.loop = before


def embedding_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs on the calling thread, if any."""
    return asyncio._get_running_loop()


def other_thread(loop: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop | None:
    """The loop, unless it runs on the calling thread, which is about to block it."""
    return None if loop is asyncio._get_running_loop() else loop


async def _cancelable(coroutine: Coroutine[Any, Any, Any], on_cancel: OnCancel | None) -> _Returned:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(_contained(coroutine))

    def cancel() -> None:
        with suppress(RuntimeError):  # the loop is closed: it has returned
            loop.call_soon_threadsafe(task.cancel)

    with nullcontext() if on_cancel is None else on_cancel(cancel):
        return await task


async def _contained(coroutine: Coroutine[Any, Any, Any]) -> _Returned:
    """An exception that would end the loop is raised by `run` instead."""
    try:
        return _Returned(await coroutine)
    except (KeyboardInterrupt, SystemExit) as error:
        return _Returned(error=error)


def _loop_of_the_process() -> asyncio.AbstractEventLoop:
    global _process_loop
    with _guard:
        if _process_loop is None:
            _process_loop = asyncio.new_event_loop()
            JoinableThread(_run_forever, "afl-handler-loop", _process_loop).start()
        return _process_loop


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while not loop.is_closed():
        with suppress(KeyboardInterrupt, SystemExit):  # of a task that a handler left behind
            loop.run_forever()


def _forget() -> None:
    """In a forked child: the thread of the loop is the parent's."""
    global _process_loop, _guard, _local
    _process_loop, _guard, _local = None, threading.Lock(), _Local()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
