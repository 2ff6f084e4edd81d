"""Keeps the leases of a worker whose event loop is blocked.

A coroutine that computes for minutes, or sleeps without `await`, stops the renewal of leases with everything else in
the loop. Other workers would take the turns over, and call the tool that is under way again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from afl.kernel.errors import StoreError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.traceback_text import stack_text

_log = logging.getLogger("afl.turns")
_JOIN_SECONDS = 5.0


class BlockedLoopGuard:
    """A thread that asks the loop for a sign every `seconds`, and calls `renew` itself as long as there is none."""

    def __init__(self, seconds: float, renew: Callable[[], object]) -> None:
        self._seconds = seconds
        self._renew = renew
        self._closing = threading.Event()
        self._thread: JoinableThread | None = None

    def start(self) -> None:
        """Guard the running loop."""
        loop = asyncio.get_running_loop()
        self._thread = JoinableThread(self._work, "afl-turn-leases", loop, threading.get_ident())
        self._thread.start()

    async def close(self) -> None:
        """End the thread."""
        self._closing.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _JOIN_SECONDS)

    def _work(self, loop: asyncio.AbstractEventLoop, blocked: int) -> None:
        while True:
            sign = threading.Event()
            try:
                loop.call_soon_threadsafe(sign.set)
            except RuntimeError:  # the loop is closed, without the worker
                return
            while not self._closing.wait(self._seconds) and not sign.is_set():
                self._keep_leases(blocked)
            if self._closing.is_set():
                return

    def _keep_leases(self, blocked: int) -> None:
        place = stack_text(blocked)
        _log.warning(
            "the event loop of this worker has been blocked for more than %g s%s: other turns wait; "
            "make the coroutine a plain function, which runs on a thread",
            self._seconds,
            f" at {place.location}" if place is not None else "",
        )
        try:
            self._renew()
        except StoreError as error:
            _log.warning("the leases of turns cannot be renewed: %s", error)
