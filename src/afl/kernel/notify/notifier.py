"""The notifier: tells listeners that it is worth looking into the store.

The store is the truth and the notifier a hint: losing every notification costs latency, never work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.kernel.notify.subscription import Subscription
from afl.kernel.notify.transport import Transport

_LONGEST_TOPIC = 255


class Notifier:
    """Opened by `open_notifier`. Safe to use from any thread, and after a fork.

        with notifier.listen(["tasks:default"]) as subscription:
            while not stopping:
                work_on_what_the_store_has()
                subscription.wait(poll_interval)

    Listen first and look afterwards: whoever looks first misses what is notified between the two.
    """

    def __init__(self, transport: Transport, release: Callable[[Transport], None]) -> None:
        self._transport = transport
        self._release = release
        self.closed = False

    @property
    def crosses_processes(self) -> bool:
        """Whether other processes hear; if not, they rely on their poll interval."""
        return self._transport.crosses_processes

    def listen(self, topics: Iterable[str], early: Iterable[str] = ()) -> Subscription:
        """A subscription for some topics; it hears from now on, until its `with` block ends.

        Those `early` among them may ring while a commit is still under way, where that can be told. That is for one who
        looks by writing: the store has him wait for that commit, and meanwhile he is getting ready.
        """
        if self.closed:
            raise InputError(f"{self!r} is closed; nothing can be heard on it")
        named = [topics] if isinstance(topics, str) else list(topics)
        subscription = Subscription(
            self._transport, self, frozenset(_checked(topic) for topic in named), frozenset(early)
        )
        self._transport.attach(subscription)
        return subscription

    def notify(self, topic: str) -> None:
        """Ring after a commit: here at once, elsewhere as soon as the wire allows. Never waits, never fails.

        An SQLite file has no other wire than its commits: they have notified for the other processes already.
        """
        self._transport.notify([_checked(topic)])
        self._transport.carry([topic])

    def notify_in(self, tx: Transaction, topic: str) -> None:
        """Make the notification part of a transaction, where the store can: it sounds when that commits, not before.

        Where it cannot, this does nothing; `rings` does what is right everywhere.
        """
        self._transport.carry_in(tx, _checked(topic))

    @property
    def carried_by_commit(self) -> bool:
        """Whether a commit can ring for the other processes itself."""
        return self._transport.carried_by_commit

    def notified(self, topics: Iterable[str]) -> None:
        """After a commit that rang where it could: ring here, and elsewhere if commits cannot."""
        self._transport.notify(topics)
        if not self._transport.carried_by_commit:
            self._transport.carry(topics)

    def notifications(self) -> Notifications:
        """Rings for what a block commits, whatever carries them."""
        return Notifications(self, self._transport)

    def connected(self, timeout: float = 0) -> bool:
        """Whether notifies of other processes arrive, now or within some seconds.

        Nobody needs to wait for it.
        """
        return self._transport.connected(timeout)

    def close(self) -> None:
        """End every wait on this notifier. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        for subscription in self._transport.subscriptions_of(self):
            subscription.close()
        self._release(self._transport)

    def __enter__(self) -> Notifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Notifier {self._transport.name}>"


class Notifications:
    """The notifies of one or more transactions.

    with notifier.rings() as rings:
        database.write(lambda tx: (insert(tx), notifies.add(tx, "tasks:default")))

    A transition may run more than once; its topics still ring once. They ring even if the block raises,
    since it may have committed before, and a notification too many does no harm.
    """

    def __init__(self, notifier: Notifier, transport: Transport) -> None:
        self._notifier = notifier
        self._transport = transport
        self._topics: set[str] = set()

    def add(self, tx: Transaction, topic: str) -> None:
        """Ring when this transaction has committed."""
        self._transport.carry_in(tx, _checked(topic))
        self._topics.add(topic)

    def __enter__(self) -> Notifications:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._topics:
            self._notifier.notified(self._topics)


def _checked(topic: str) -> str:
    if not 1 <= len(topic.encode()) <= _LONGEST_TOPIC or not topic.isprintable():
        raise InputError(
            f"notifier topic {topic[:80]!r}: expected printable text of 1 to {_LONGEST_TOPIC} bytes"
        )
    return topic
