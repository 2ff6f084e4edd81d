"""A transport delivers notifications to the subscriptions of this process; one per address and process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from afl.kernel.database import Transaction
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.notify.subscription import Subscription

_JOIN_SECONDS = 5.0
_FLUSH_SECONDS = 2.0


class Transport:
    """The subscriptions of this process. This class reaches no other process; its subclasses do.

    What crosses processes is a hint: a transport that lost its connection raises nothing, connects again forever, and
    then notifies every subscription.
    """

    crosses_processes: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.users = 0
        self._guard = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._by_topic: dict[str, set[Subscription]] = {}
        self._thread: JoinableThread | None = None
        self._closing = threading.Event()
        _transports.add(self)

    def sent_by_commit(self) -> bool:
        """Whether the commit that is about to begin notifies the other processes itself."""
        return False

    def attach(self, subscription: Subscription) -> None:
        """From the moment this returns the subscription misses no notification."""
        with self._guard:
            self._subscriptions.add(subscription)
            self._add(subscription, subscription.topics)
        self._begin()

    def change(self, subscription: Subscription, topics: frozenset[str]) -> None:
        """Deliver other topics to this subscription; nothing if it is detached."""
        with self._guard:
            if subscription in self._subscriptions:
                self._add(subscription, topics - subscription.topics)
                self._remove(subscription, subscription.topics - topics)
                subscription.topics = topics

    def detach(self, subscription: Subscription) -> None:
        """Deliver no more to this subscription."""
        with self._guard:
            self._subscriptions.discard(subscription)
            self._remove(subscription, subscription.topics)

    def _add(self, subscription: Subscription, topics: Iterable[str]) -> None:
        for topic in topics:
            self._by_topic.setdefault(topic, set()).add(subscription)

    def _remove(self, subscription: Subscription, topics: Iterable[str]) -> None:
        for topic in topics:
            subscriptions = self._by_topic.get(topic, set())
            subscriptions.discard(subscription)
            if not subscriptions:
                self._by_topic.pop(topic, None)

    def subscriptions_of(self, owner: object) -> list[Subscription]:
        """The open subscriptions of one notifier."""
        with self._guard:
            return [subscription for subscription in self._subscriptions if subscription.owner is owner]

    def deliver(self, topics: Iterable[str]) -> None:
        """Notify the subscriptions of this process."""
        topics = frozenset(topics)
        with self._guard:
            subscriptions = {
                subscription for topic in topics for subscription in self._by_topic.get(topic, ())
            }
        for subscription in subscriptions:
            subscription.receive(topics)

    def deliver_all(self) -> None:
        """Notify every subscription of this process of all its topics: anything may have happened."""
        with self._guard:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.receive(subscription.topics)

    def deliver_early(self) -> bool:
        """A commit has begun: notify those that asked for that. Whether there are no other subscriptions."""
        with self._guard:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            if subscription.early:
                subscription.receive(subscription.early)
        return all(subscription.early for subscription in subscriptions)

    def send(self, topics: Iterable[str]) -> None:
        """Notify the other processes; never waits and never fails."""

    def payload(self, topic: str) -> str:
        """What a commit sends that notifies the other processes itself. The topic alone notifies this process too."""
        return topic

    def send_in(self, tx: Transaction, payload: str) -> None:
        """Make the notification part of a transaction, where the commit notifies itself."""

    def waiting(self) -> AbstractContextManager[None]:
        """A block in which a thread or task waits for notifications."""
        self._begin()  # in a forked child a subscription may be older than the thread
        return nullcontext()

    def connected(self, timeout: float) -> bool:
        """Whether notifications of other processes arrive, now or within some seconds."""
        return True

    def flush(self) -> None:
        """Wait until what was notified is sent, unless the connection is lost."""

    def close(self) -> None:
        """End the thread; notifications are sent first, unless the connection is lost."""
        self._closing.set()
        self._interrupt()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            # It may be inside a connection attempt; then it ends by itself later.
            thread.join(_JOIN_SECONDS)

    def pause(self) -> None:
        """Before a fork: end what must not be carried through it."""

    def resume(self) -> None:
        """After a fork, in the parent."""

    def forked(self) -> None:
        """In a forked child: the subscriptions are copied, the thread is not; the parent's connection stays open."""
        closed = self._closing.is_set()
        self._guard = threading.Lock()
        self._closing = threading.Event()
        if closed:
            self._closing.set()
        self._thread = None
        for subscription in self._subscriptions:
            subscription.forked()

    def _begin(self) -> None:
        """Start the thread of this transport, if it needs one and has none."""

    def _interrupt(self) -> None:
        """End the wait of the thread."""

    def _start(self, name: str) -> None:
        with self._guard:
            if self._thread is None and not self._closing.is_set():
                self._thread = JoinableThread(self._work, name)
                self._thread.start()

    def _work(self) -> None:
        """What the thread does until `_closing` is set."""


class ServerTransport(Transport):
    """A transport over a server. Notifications are queued for its thread, so that `send` never waits for a network.

    While the server is away they gather, each topic once, and are sent after the reconnect. Closing waits until they
    are sent, since a short command notifies and ends before there is a connection; not if the connection was lost.
    """

    crosses_processes = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._reset()

    def send(self, topics: Iterable[str]) -> None:
        if self._closing.is_set():
            return
        first = self._queue(topics)
        self._begin()
        if first:  # else the thread has been interrupted, and will find these too
            self._interrupt()

    def connected(self, timeout: float) -> bool:
        self._begin()
        return self._connected.wait(timeout)

    def flush(self) -> None:
        self._flushed.wait(_FLUSH_SECONDS)

    def close(self) -> None:
        self.flush()
        super().close()

    def forked(self) -> None:
        super().forked()
        self._reset()

    def _reset(self) -> None:
        self._unsent: set[str] = set()  # after a fork the parent sends what it had queued
        self._connected = threading.Event()
        self._lost = False
        self._flushed = threading.Event()  # nothing is queued, or the connection is lost
        self._flushed.set()

    def _take_unsent(self) -> list[str]:
        with self._guard:
            topics = sorted(self._unsent)
            self._unsent.clear()
            return topics

    def _queue(self, topics: Iterable[str]) -> bool:
        """Whether they are the first to be queued."""
        with self._guard:
            first = not self._unsent
            self._unsent.update(topics)
            if self._unsent and not self._lost:
                self._flushed.clear()
            return first

    def _sent(self) -> None:
        with self._guard:
            if not self._unsent:
                self._flushed.set()

    def _connection_made(self) -> None:
        """Notifications sent before this moment were missed, so every subscription is notified."""
        self._lost = False
        self.deliver_all()
        self._connected.set()

    def _connection_lost(self) -> None:
        with self._guard:
            self._lost = True
            self._connected.clear()
            self._flushed.set()


_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


_paused: list[Transport] = []


def _pause() -> None:
    _paused[:] = _transports
    for transport in _paused:
        transport.pause()


def _resume() -> None:
    while _paused:
        _paused.pop().resume()


def _forked() -> None:
    while _paused:
        _paused.pop().forked()


os.register_at_fork(before=_pause, after_in_parent=_resume, after_in_child=_forked)
