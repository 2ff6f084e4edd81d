"""Those who wait for a queue, and how they are notified."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager


class Waiter:
    """Somebody who waits. a notification that comes while it is awake counts for its next wait.

    `looks_at` is when it looks again by itself, `due` when it knows that something may be there. A selective one is
    not handed everything, so a notification for it is a notification for the next one, too.
    """

    def __init__(self) -> None:
        self.notified = self.is_selective = False
        self.looks_at = self.due = math.inf
        self._sleep: asyncio.Future[None] | None = None

    def notify(self) -> None:
        self.notified = True
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    async def wait(self, seconds: float, due: float | None = None) -> None:
        """Returns when notified, at the latest after so many seconds, or when something is due.

        The ring is used up unless the wait is cancelled.
        """
        if not self.notified:
            loop = asyncio.get_running_loop()
            self.due = math.inf if due is None else loop.time() + due
            self.looks_at = min(self.due, loop.time() + seconds)
            self._sleep = loop.create_future()
            try:
                async with asyncio.timeout_at(self.looks_at):
                    await self._sleep
            except TimeoutError:
                pass
            finally:
                self._sleep = None
        self.notified = False


class Waiters:
    """All who wait, by queue. One message wakes one of them who is handed everything, the longest waiting first."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Waiter, None]] = {}

    @contextmanager
    def waiting(self, queue: str) -> Iterator[Waiter]:
        waiter = Waiter()
        self._waiting.setdefault(queue, {})[waiter] = None
        try:
            yield waiter
        finally:
            line = self._waiting[queue]
            del line[waiter]
            if not line:
                del self._waiting[queue]
            elif waiter.notified or waiter.due < min(other.looks_at for other in line):
                # It leaves with a notification unanswered, or as the only one who knows what comes: another must look.
                self.notify(queue, 1)

    def notify(self, queue: str, count: int) -> None:
        """Wake so many of those who were not notified yet."""
        for waiter in self._waiting.get(queue, ()):
            if count <= 0:
                return
            if not waiter.notified:
                waiter.notify()
                count -= not waiter.is_selective

    def notify_all_topics(self, queue: str | None = None) -> None:
        """Wake everybody, of one queue or of all: something may have been missed."""
        for name, line in self._waiting.items():
            if queue is None or name == queue:
                for waiter in line:
                    waiter.notify()
