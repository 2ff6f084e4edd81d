"""Threads for an event loop, that do only what is needed: one queue, one call back into the loop.

A turn is three such calls, and `run_in_executor` takes twice as long for each.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.unraisable import as_failure


class Threads:
    """At most so many; one is started when all the others are at work."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0  # calls under way; the loop alone counts them

    async def call(self, work: Callable[[], Any], *, leaving: bool = False) -> Any:
        """What `work` returns. A cancellation comes after the end of what has begun; `leaving`: at once."""
        call = _Call(asyncio.get_running_loop(), copy_context(), work, self._close_one)
        self._open += 1
        if self._open > len(self._threads) < self._most:
            thread = JoinableThread(self._serve, self._name)
            self._threads.append(thread)
            thread.start()
        self._calls.put(call)
        return await call.outcome(leaving=leaving)

    def close(self, *, wait: bool = True) -> None:
        """No more calls; not to wait leaves alone whoever is at work still."""
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()
        self._threads.clear()

    def _close_one(self) -> None:
        self._open -= 1  # not before its thread is free, though nobody waits for it any more

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()


class _Call:
    """Work for a thread, and the future of the loop that waits for it."""

    __slots__ = ("_context", "_ended", "_future", "_loop", "_on_end", "_unwanted", "_work")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: Context,
        work: Callable[[], Any],
        on_end: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._context = context
        self._work = work
        self._on_end = on_end
        self._future = loop.create_future()
        self._ended = self._unwanted = False

    async def outcome(self, *, leaving: bool) -> Any:
        """In the loop: what came of it. Whoever is cancelled learns it when the work has ended, or cannot begin."""
        try:
            return await self._future
        except asyncio.CancelledError:
            self._unwanted = True
            if not self._ended and not leaving:
                self._future = self._loop.create_future()
                await asyncio.wait([self._future])
                self._future.exception()  # nobody asks for it any more
            raise

    def make(self) -> None:
        """On a thread."""
        result, error = None, None
        try:
            if not self._unwanted:
                result = self._context.run(self._work)
        except BaseException as raised:  # whatever it is, it is the caller's
            error = as_failure(raised)
        try:
            self._loop.call_soon_threadsafe(self._end, result, error)
        except RuntimeError:
            return  # the loop was closed without waiting; there is nobody to tell

    def _end(self, result: Any, error: Exception | None) -> None:
        self._ended = True
        self._on_end()
        if self._future.done():
            return
        if error is None:
            self._future.set_result(result)
        else:
            self._future.set_exception(error)
