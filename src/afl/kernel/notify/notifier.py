"""The notifier: tells subscribers to read the store again.

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

        with notifier.subscribe(["tasks:default"]) as subscription:
            while not stopping:
                work_on_what_the_store_has()
                subscription.wait(poll_interval)

    Subscribe first and read afterwards: a notification between a read and a later subscription would be missed.
    """

    def __init__(self, transport: Transport, release: Callable[[Transport], None]) -> None:
        self._transport = transport
        self._release = release
        self.closed = False

    @property
    def crosses_processes(self) -> bool:
        """Whether other processes are notified; if not, they rely on their poll interval."""
        return self._transport.crosses_processes

    def subscribe(self, topics: Iterable[str], early: Iterable[str] = ()) -> Subscription:
        """A subscription to some topics, from now until its `with` block ends.

        The topics in `early` may be notified while a commit is still under way, where the transport can know that. This
        is for a subscriber that reads by writing (a claim): the store makes it wait for that commit.
        """
        if self.closed:
            raise InputError(f"{self!r} is closed; nothing can be subscribed to")
        named = [topics] if isinstance(topics, str) else list(topics)
        subscription = Subscription(
            self._transport, self, frozenset(_checked(topic) for topic in named), frozenset(early)
        )
        self._transport.attach(subscription)
        return subscription

    def notify(self, topic: str) -> None:
        """Notify after a commit: this process at once, the others as soon as possible. Never waits, never fails.

        On an SQLite file the commit itself has notified the other processes already.
        """
        self._transport.deliver([_checked(topic)])
        self._transport.send([topic])

    def sent_by_commit(self) -> bool:
        """Whether the commit that is about to begin notifies the other processes itself; to be asked once for each."""
        return self._transport.sent_by_commit()

    def payloads(self, topics: Iterable[str]) -> list[str]:
        """What a commit sends that notifies the other processes of these topics itself."""
        return [self._transport.payload(topic) for topic in topics]

    def after_commit(self, topics: Iterable[str], *, sent: bool) -> None:
        """Notify this process, and the others unless the commit did: `sent` is what `sent_by_commit` said before it."""
        self._transport.deliver(topics)
        if not sent:
            self._transport.send(topics)

    def batch(self) -> Notifications:
        """The notifications of the transactions in a `with` block."""
        return Notifications(self, self._transport)

    def connected(self, timeout: float = 0) -> bool:
        """Whether notifications of other processes arrive, now or within some seconds."""
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
    """The notifications of one or more transactions.

        with notifier.batch() as notifications:
            database.write(lambda tx: (insert(tx), notifications.add(tx, "tasks:default")))

    A transition may run more than once; its topics are notified once. They are notified even if the block raises, since
    it may have committed before, and a needless notification does no harm.
    """

    def __init__(self, notifier: Notifier, transport: Transport) -> None:
        self._notifier = notifier
        self._transport = transport
        self._topics: set[str] = set()
        self._sent = transport.sent_by_commit()

    def add(self, tx: Transaction, topic: str) -> None:
        """Notify when this transaction has committed."""
        if self._sent:
            self._transport.send_in(tx, self._transport.payload(_checked(topic)))
        self._topics.add(topic)

    def __enter__(self) -> Notifications:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._topics:
            self._notifier.after_commit(self._topics, sent=self._sent)


def _checked(topic: str) -> str:
    if not 1 <= len(topic.encode()) <= _LONGEST_TOPIC or not topic.isprintable():
        raise InputError(
            f"notifier topic {topic[:80]!r}: expected printable text of 1 to {_LONGEST_TOPIC} bytes"
        )
    return topic
