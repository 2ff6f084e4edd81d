"""An ear: what one listener has heard since it last asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afl.kernel.doorbell.wire import Wire


class Ear:
    """Made by `Doorbell.listen`, and for one listener: subscribe, look into the store, wait, look again.

    Nothing that rings between `listen` and `wait` is lost, and rings that nobody waited for become one. An
    ear may also wake without a ring (a connection came back, say), so a listener always looks for itself.
    """

    def __init__(self, wire: Wire, owner: object, topics: frozenset[str]) -> None:
        self.owner = owner
        self.topics = topics
        self.closed = False
        self._wire = wire
        self._heard: set[str] = set()
        self._woken = False
        self._condition = threading.Condition()
        self._tellers: set[Callable[[], None]] = set()

    def wait(self, timeout: float | None = None) -> frozenset[str]:
        """The topics that rang, at once or within `timeout` seconds; none when the time is up.

        `wake` and the closing of the ear or its doorbell end the wait early, also with none.
        """
        with self._wire.attention(), self._condition:
            self._condition.wait_for(self._has_news, timeout)
            return self._take()

    async def wait_async(self, timeout: float | None = None) -> frozenset[str]:
        """`wait` for asyncio."""
        loop = asyncio.get_running_loop()
        news, here = loop.create_future(), threading.get_ident()

        def tell() -> None:
            if threading.get_ident() == here:
                _resolve(news)
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it this listener gone
                loop.call_soon_threadsafe(_resolve, news)

        with self._wire.attention():
            with self._condition:
                self._tellers.add(tell)
                if self._has_news():
                    _resolve(news)
            timer = None if timeout is None else loop.call_later(timeout, _resolve, news)
            try:
                await news
            finally:
                if timer is not None:
                    timer.cancel()
                with self._condition:
                    self._tellers.discard(tell)
            with self._condition:
                return self._take()

    def wake(self) -> None:
        """End the wait under way, or the next one; from any thread."""
        with self._condition:
            self._woken = True
            self._tell()

    def hear(self, topics: Iterable[str]) -> None:
        """Somebody rang; what this ear does not listen to is ignored."""
        with self._condition:
            self._heard |= self.topics.intersection(topics)
            if self._heard:
                self._tell()

    def close(self) -> None:
        """Hear no more. A wait under way ends, and later ones return at once."""
        self._wire.detach(self)
        with self._condition:
            self.closed = True
            self._tell()

    def forked(self) -> None:
        """In the child: whoever held the lock in the parent is not here to release it."""
        self._condition = threading.Condition()
        self._tellers = set()

    def __enter__(self) -> Ear:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _has_news(self) -> bool:
        return bool(self._heard) or self._woken or self.closed

    def _take(self) -> frozenset[str]:
        heard = frozenset(self._heard)
        self._heard.clear()
        self._woken = False
        return heard

    def _tell(self) -> None:
        self._condition.notify_all()
        for tell in self._tellers:
            tell()


def _resolve(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)
