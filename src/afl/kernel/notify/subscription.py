"""An ear: what one listener has heard since it last asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afl.kernel.notify.transport import Wire


class Ear:
    """Made by `Doorbell.listen`, and for one listener: subscribe, look into the store, wait, look again.

    Nothing that rings between `listen` and `wait` is lost, and rings that nobody waited for become one. An
    ear may also wake without a ring (a connection came back, say), so a listener always looks for itself.
    """

    def __init__(
        self, wire: Wire, owner: object, topics: frozenset[str], early: frozenset[str] = frozenset()
    ) -> None:
        self.owner = owner
        self.topics = topics
        self.early = early & topics
        self.closed = False
        self._wire = wire
        self._heard: set[str] = set()
        self._woken = False
        self._guard = threading.Lock()
        self._tellers: set[Callable[[], None]] = set()

    def wait(self, timeout: float | None = None) -> frozenset[str]:
        """The topics that rang, at once or within `timeout` seconds; none when the time is up.

        `wake` and the closing of the ear or its doorbell end the wait early, also with none.
        """
        bell = threading.Lock()
        bell.acquire()
        with self._wire.attention():
            if self._has_none(bell.release):
                try:
                    bell.acquire(
                        timeout=-1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))
                    )
                finally:
                    self._ignore(bell.release)
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

    def hear(self, topics: Iterable[str]) -> None:
        """Somebody rang; what this ear does not listen to is ignored."""
        with self._guard:
            self._heard |= self.topics.intersection(topics)
            waiting = self._waiting() if self._heard else ()
        _tell(waiting)

    def close(self) -> None:
        """Hear no more. A wait under way ends, and later ones return at once."""
        self._wire.detach(self)
        with self._guard:
            self.closed = True
            waiting = self._waiting()
        _tell(waiting)

    def forked(self) -> None:
        """In the child: whoever held the lock in the parent is not here to release it."""
        self._guard = threading.Lock()
        self._tellers = set()

    def __enter__(self) -> Ear:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _has_none(self, tell: Callable[[], None]) -> bool:
        """Whether there is nothing to take yet; then `tell` is called, once, as soon as there is."""
        with self._guard:
            if self._heard or self._woken or self.closed:
                return False
            self._tellers.add(tell)
            return True

    def _ignore(self, tell: Callable[[], None]) -> None:
        with self._guard:
            self._tellers.discard(tell)

    def _take(self) -> frozenset[str]:
        with self._guard:
            heard = frozenset(self._heard)
            self._heard.clear()
            self._woken = False
            return heard

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
