"""A subscription: what one listener has heard since it last asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afl.kernel.notify.transport import Transport


class Subscription:
    """Made by `Notifier.listen`, and for one listener: subscribe, look into the store, wait, look again.

    Nothing that notifies between `listen` and `wait` is lost, and notifies that nobody waited for become one. An
    subscription may also wake without one (a connection came back, say), so a subscriber always looks for itself.
    """

    def __init__(
        self, transport: Transport, owner: object, topics: frozenset[str], early: frozenset[str] = frozenset()
    ) -> None:
        self.owner = owner
        self.topics = topics
        self.early = early & topics
        self.closed = False
        self._transport = transport
        self._received: set[str] = set()
        self._woken = False
        self._guard = threading.Lock()
        self._tellers: set[Callable[[], None]] = set()

    def wait(self, timeout: float | None = None) -> frozenset[str]:
        """The topics that rang, at once or within `timeout` seconds; none when the time is up.

        `wake` and the closing of the subscription or its notifier end the wait early, also with none.
        """
        notifier = threading.Lock()
        notifier.acquire()
        with self._transport.attention():
            if self._has_none(notifier.release):
                try:
                    notifier.acquire(
                        timeout=-1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))
                    )
                finally:
                    self._ignore(notifier.release)
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

        with self._transport.attention():
            if self._has_none(tell):
                timer = None if timeout is None else loop.call_later(timeout, _resolve, news)
                try:
                    await news
                finally:
                    if timer is not None:
                        timer.cancel()
                    self._ignore(tell)
            return self._take()

    def wake(self) -> None:
        """End the wait under way, or the next one; from any thread."""
        with self._guard:
            self._woken = True
            waiting = self._waiting()
        _tell(waiting)

    def receive(self, topics: Iterable[str]) -> None:
        """Somebody rang; what this subscription does not listen to is ignored."""
        with self._guard:
            self._received |= self.topics.intersection(topics)
            waiting = self._waiting() if self._received else ()
        _tell(waiting)

    def close(self) -> None:
        """Hear no more. A wait under way ends, and later ones return at once."""
        self._transport.detach(self)
        with self._guard:
            self.closed = True
            waiting = self._waiting()
        _tell(waiting)

    def forked(self) -> None:
        """In the child: whoever held the lock in the parent is not here to release it."""
        self._guard = threading.Lock()
        self._tellers = set()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _has_none(self, tell: Callable[[], None]) -> bool:
        """Whether there is nothing to take yet; then `tell` is called, once, as soon as there is."""
        with self._guard:
            if self._received or self._woken or self.closed:
                return False
            self._tellers.add(tell)
            return True

    def _ignore(self, tell: Callable[[], None]) -> None:
        with self._guard:
            self._tellers.discard(tell)

    def _take(self) -> frozenset[str]:
        with self._guard:
            received = frozenset(self._received)
            self._received.clear()
            self._woken = False
            return received

    def _waiting(self) -> Iterable[Callable[[], None]]:
        waiting, self._tellers = self._tellers, set()
        return waiting


def _tell(waiting: Iterable[Callable[[], None]]) -> None:
    """Outside the guard: whoever is woken takes it at once, and must not find it shut."""
    for tell in waiting:
        tell()


def _resolve(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)
