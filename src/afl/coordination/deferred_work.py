"""Work that a synchronous method submits and a coroutine runs: in order, errors are kept until they are requested."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

LOGGER = logging.getLogger(__name__)
Work = Callable[[Any], Awaitable[None]]


class DeferredWork:
    """Runs in the background when a loop is running; else it waits until `settle` or `flush` is awaited."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._waiting: deque[tuple[Work, Any]] = deque()
        self._draining: asyncio.Task[None] | None = None
        self._errors: list[Exception] = []

    def add(self, work: Work, subject: Any) -> None:
        """Run it after everything that was added before."""
        self._waiting.append((work, subject))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._draining is None or self._draining.done():
            self._draining = loop.create_task(self._drain())

    async def settle(self) -> None:
        """Wait until all is done; errors stay."""
        if self._draining is not None and not self._draining.done():
            await asyncio.wait([self._draining])
        await self._drain()

    async def flush(self) -> None:
        """Wait until all is done; raises the first error, with the others as notes."""
        await self.settle()
        errors, self._errors = self._errors, []
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"and then: {other}")
            raise errors[0]

    async def _drain(self) -> None:
        while self._waiting:
            work, subject = self._waiting.popleft()
            try:
                await work(subject)
            except Exception as error:
                LOGGER.warning("%s: %s (flush raises it, too)", self._what, error)
                self._errors.append(error)
