"""A wire: what carries notifies from those who ring to the subscriptions; one per address and process."""

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

_FAREWELL_SECONDS = 5.0


class Transport:
    """The subscriptions of this process. By itself it reaches no further; the other wires extend it.

    What crosses processes is a hint: a wire that is broken says nothing, tries again for ever, and rings
    everyone once it is whole.
    """

    crosses_processes: ClassVar[bool] = False
    carried_by_commit: ClassVar[bool] = False  # whoever commits has notified for the other processes

    def __init__(self, name: str) -> None:
        self.name = name
        self.users = 0
        self._guard = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._by_topic: dict[str, set[Subscription]] = {}
        self._thread: JoinableThread | None = None
        self._closing = threading.Event()
        _transports.add(self)

    def attach(self, subscription: Subscription) -> None:
        """From the moment this returns no notification is lost to the subscription."""
        with self._guard:
            self._subscriptions.add(subscription)
            for topic in subscription.topics:
                self._by_topic.setdefault(topic, set()).add(subscription)
        self._begin()

    def detach(self, subscription: Subscription) -> None:
        with self._guard:
            self._subscriptions.discard(subscription)
            for topic in subscription.topics:
                subscriptions = self._by_topic.get(topic, set())
                subscriptions.discard(subscription)
                if not subscriptions:
                    self._by_topic.pop(topic, None)

    def subscriptions_of(self, owner: object) -> list[Subscription]:
        """The subscriptions that one notifier has given out and that still hear."""
        with self._guard:
            return [subscription for subscription in self._subscriptions if subscription.owner is owner]

    def notify(self, topics: Iterable[str]) -> None:
        """Ring the subscriptions of this process."""
        topics = frozenset(topics)
        with self._guard:
            subscriptions = {
                subscription for topic in topics for subscription in self._by_topic.get(topic, ())
            }
        for subscription in subscriptions:
            subscription.receive(topics)

    def notify_everyone(self) -> None:
        """Anything may have happened: let every subscription of this process look."""
        with self._guard:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.receive(subscription.topics)

    def notify_early(self) -> bool:
        """A commit is under way: let those look who wished to know. Whether nobody else listens."""
        with self._guard:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            if subscription.early:
                subscription.receive(subscription.early)
        return all(subscription.early for subscription in subscriptions)

    def carry(self, topics: Iterable[str]) -> None:
        """Ring the other processes; never waits and never fails."""

    def carry_in(self, tx: Transaction, topic: str) -> None:
        """Make the notification part of a transaction, where a commit can carry one."""

    def attention(self) -> AbstractContextManager[None]:
        """Somebody waits within this block."""
        self._begin()  # in a forked child a subscription may be older than the thread
        return nullcontext()

    def connected(self, timeout: float) -> bool:
        """Whether notifies of other processes arrive, now or within some seconds."""
        return True

    def close(self) -> None:
        """End the thread; what was notified before is sent first, unless the wire is broken."""
        self._closing.set()
        self._interrupt()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            # It may be stuck in a connection attempt; then it ends by itself later.
            thread.join(_FAREWELL_SECONDS)

    def forked(self) -> None:
        """In the child: the subscriptions are copied, the thread is not; what the parent holds open is left alone."""
        closed = self._closing.is_set()
        self._guard = threading.Lock()
        self._closing = threading.Event()
        if closed:
            self._closing.set()
        self._thread = None
        for subscription in self._subscriptions:
            subscription.forked()

    def _begin(self) -> None:
        """Start the thread of this wire, if it needs one and does not have it."""

    def _interrupt(self) -> None:
        """Call the thread to attention."""

    def _start(self, name: str) -> None:
        with self._guard:
            if self._thread is None and not self._closing.is_set():
                self._thread = JoinableThread(self._work, name)
                self._thread.start()

    def _work(self) -> None:
        """What the thread does until `_closing` is set."""


_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


def _forked() -> None:
    for transport in list(_transports):
        transport.forked()


os.register_at_fork(after_in_child=_forked)
