"""Requests that wait: each looks, and looks again when a topic it listens to is notified, until its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class Parking:
    """Everyone who waits, by topic. a notification between a look and the wait that follows is never missed."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._closing = False

    def notify(self, topics: Iterable[str]) -> None:
        """Wake everyone who listens to one of these topics."""
        for topic in topics:
            for event in self._waiting.get(topic, ()):
                event.set()

    def close(self) -> None:
        """Let everyone go, now and later: the principal ends."""
        self._closing = True
        self.notify(list(self._waiting))

    async def until(
        self, look: Callable[[], Awaitable[T | None]], topics: Iterable[str], seconds: float
    ) -> T | None:
        """The first answer that is not None; None when the time is over."""
        names = tuple(topics)
        event = asyncio.Event()
        for topic in names:
            self._waiting.setdefault(topic, set()).add(event)
        try:
            deadline = asyncio.get_running_loop().time() + seconds
            while True:
                event.clear()
                answer = await look()
                left = deadline - asyncio.get_running_loop().time()
                if answer is not None or left <= 0 or self._closing:
                    return answer
                await _notified(event, left)
        finally:
            for topic in names:
                self._leave(topic, event)

    def _leave(self, topic: str, event: asyncio.Event) -> None:
        waiting = self._waiting[topic]
        waiting.discard(event)
        if not waiting:
            del self._waiting[topic]


async def _notified(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return  # the caller looks once more, for the last time
