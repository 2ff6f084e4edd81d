"""A subscription: the topics that were notified since its owner last waited."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_EVERY_SECONDS = 1.0


class Source(Protocol):
    """Where the notifications of a subscription come from."""

    def change(self, subscription: Subscription, topics: frozenset[str]) -> None:
        """Deliver other topics to this subscription."""

    def detach(self, subscription: Subscription) -> None:
        """Deliver no more to this subscription."""

    def waiting(self) -> AbstractContextManager[None]:
        """A block in which a thread or task waits for notifications."""


class Subscription:
    """Made by `Notifier.subscribe`, for one subscriber: subscribe, read the store, wait, read again.

    No notification between `subscribe` and `wait` is lost, and those that came before a `wait` become one. A `wait`
    may also end without one (after a reconnect, say), so a subscriber always reads the store.
    """

    def __init__(
        self, source: Source, owner: object, topics: frozenset[str], early: frozenset[str] = frozenset()
    ) -> None:
        self.owner = owner
        self.topics = topics
        self.early = early & topics
        self.closed = False
        self._source = source
        self._received: set[str] = set()
        self._woken = False
        self._guard = threading.Lock()
        self._callbacks: set[Callable[[], None]] = set()

    def wait(self, timeout: float | None = None) -> frozenset[str]:
        """The topics that were notified, at once or within `timeout` seconds; none when the time is up.

        `wake` and closing the subscription or its notifier also end the wait, with none.
        """
        waiter = threading.Lock()
        waiter.acquire()
        with self._source.waiting():
            if self._is_empty(waiter.release):
                seconds = -1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))
                try:
                    waiter.acquire(timeout=seconds)
                finally:
                    self._remove(waiter.release)
            return self._take()

    def poll(self, look: Callable[[], T], is_enough: Callable[[T], bool], seconds: float | None = None) -> T:
        """What `look` finds, as soon as that is enough, or else after so many seconds (None: without end).

        It looks again after each notification, and every second, for one may be lost.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            found = look()
            left = _EVERY_SECONDS if until is None else min(_EVERY_SECONDS, until - time.monotonic())
            if left <= 0 or is_enough(found):
                return found
            self.wait(left)

    async def wait_async(self, timeout: float | None = None) -> frozenset[str]:
        """`wait` for asyncio."""
        from asyncio import get_running_loop  # noqa: PLC0415  few commands have an event loop

        loop = get_running_loop()
        future, thread = loop.create_future(), threading.get_ident()

        def callback() -> None:
            if threading.get_ident() == thread:
                _resolve(future)
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it this subscriber is gone
                loop.call_soon_threadsafe(_resolve, future)

        with self._source.waiting():
            if self._is_empty(callback):
                timer = None if timeout is None else loop.call_later(timeout, _resolve, future)
                try:
                    await future
                finally:
                    if timer is not None:
                        timer.cancel()
                    self._remove(callback)
            return self._take()

    def change(self, topics: Iterable[str]) -> None:
        """Receive these topics from now on, in place of the earlier ones. As with `subscribe`, read the store after."""
        self._source.change(self, frozenset(topics))

    def wake(self) -> None:
        """End the wait under way, or the next one; from any thread."""
        with self._guard:
            self._woken = True
            callbacks = self._take_callbacks()
        _call(callbacks)

    def receive(self, topics: Iterable[str]) -> None:
        """Deliver a notification; topics that were not subscribed to are ignored."""
        with self._guard:
            self._received |= self.topics.intersection(topics)
            callbacks = self._take_callbacks() if self._received else ()
        _call(callbacks)

    def close(self) -> None:
        """Receive no more. A wait under way ends, and later ones return at once."""
        self._source.detach(self)
        with self._guard:
            self.closed = True
            callbacks = self._take_callbacks()
        _call(callbacks)

    def forked(self) -> None:
        """In a forked child: the thread that held the lock in the parent does not exist here."""
        self._guard = threading.Lock()
        self._callbacks = set()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_empty(self, callback: Callable[[], None]) -> bool:
        """Whether there is nothing to take yet; then `callback` is called once as soon as there is."""
        with self._guard:
            if self._received or self._woken or self.closed:
                return False
            self._callbacks.add(callback)
            return True

    def _remove(self, callback: Callable[[], None]) -> None:
        with self._guard:
            self._callbacks.discard(callback)

    def _take(self) -> frozenset[str]:
        with self._guard:
            received = frozenset(self._received)
            self._received.clear()
            self._woken = False
            return received

    def _take_callbacks(self) -> Iterable[Callable[[], None]]:
        callbacks, self._callbacks = self._callbacks, set()
        return callbacks


def _call(callbacks: Iterable[Callable[[], None]]) -> None:
    """Outside the lock, which the woken thread takes at once."""
    for callback in callbacks:
        callback()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
