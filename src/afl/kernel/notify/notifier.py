"""The doorbell: tells listeners that it is worth looking into the store.

The store is the truth and the bell a hint: losing every ring costs latency, never work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.kernel.notify.subscription import Ear
from afl.kernel.notify.transport import Wire

_LONGEST_TOPIC = 255


class Doorbell:
    """Opened by `open_doorbell`. Safe to use from any thread, and after a fork.

        with bell.listen(["tasks:default"]) as ear:
            while not stopping:
                work_on_what_the_store_has()
                ear.wait(poll_interval)

    Listen first and look afterwards: whoever looks first misses what is rung between the two.
    """

    def __init__(self, wire: Wire, release: Callable[[Wire], None]) -> None:
        self._wire = wire
        self._release = release
        self.closed = False

    @property
    def crosses_processes(self) -> bool:
        """Whether other processes hear; if not, they rely on their poll interval."""
        return self._wire.crosses_processes

    def listen(self, topics: Iterable[str], early: Iterable[str] = ()) -> Ear:
        """An ear for some topics; it hears from now on, until its `with` block ends.

        Those `early` among them may ring while a commit is still under way, where that can be told. That is for one who
        looks by writing: the store has him wait for that commit, and meanwhile he is getting ready.
        """
        if self.closed:
            raise InputError(f"{self!r} is closed; nothing can be heard on it")
        named = [topics] if isinstance(topics, str) else list(topics)
        ear = Ear(self._wire, self, frozenset(_checked(topic) for topic in named), frozenset(early))
        self._wire.attach(ear)
        return ear

    def ring(self, topic: str) -> None:
        """Ring after a commit: here at once, elsewhere as soon as the wire allows. Never waits, never fails.

        An SQLite file has no other wire than its commits: they have rung for the other processes already.
        """
        self._wire.ring([_checked(topic)])
        self._wire.carry([topic])

    def ring_in(self, tx: Transaction, topic: str) -> None:
        """Make the ring part of a transaction, where the store can: it sounds when that commits, not before.

        Where it cannot, this does nothing; `rings` does what is right everywhere.
        """
        self._wire.carry_in(tx, _checked(topic))

    @property
    def carried_by_commit(self) -> bool:
        """Whether a commit can ring for the other processes itself."""
        return self._wire.carried_by_commit

    def rung(self, topics: Iterable[str]) -> None:
        """After a commit that rang where it could: ring here, and elsewhere if commits cannot."""
        self._wire.ring(topics)
        if not self._wire.carried_by_commit:
            self._wire.carry(topics)

    def rings(self) -> Rings:
        """Rings for what a block commits, whatever carries them."""
        return Rings(self, self._wire)

    def connected(self, timeout: float = 0) -> bool:
        """Whether rings of other processes arrive, now or within some seconds.

        Nobody needs to wait for it.
        """
        return self._wire.connected(timeout)

    def close(self) -> None:
        """End every wait on this doorbell. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        for ear in self._wire.ears_of(self):
            ear.close()
        self._release(self._wire)

    def __enter__(self) -> Doorbell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Doorbell {self._wire.name}>"


class Rings:
    """The rings of one or more transactions.

    with bell.rings() as rings:
        database.write(lambda tx: (insert(tx), rings.add(tx, "tasks:default")))

    A transition may run more than once; its topics still ring once. They ring even if the block raises,
    since it may have committed before, and a ring too many does no harm.
    """

    def __init__(self, bell: Doorbell, wire: Wire) -> None:
        self._bell = bell
        self._wire = wire
        self._topics: set[str] = set()

    def add(self, tx: Transaction, topic: str) -> None:
        """Ring when this transaction has committed."""
        self._wire.carry_in(tx, _checked(topic))
        self._topics.add(topic)

    def __enter__(self) -> Rings:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._topics:
            self._bell.rung(self._topics)


def _checked(topic: str) -> str:
    if not 1 <= len(topic.encode()) <= _LONGEST_TOPIC or not topic.isprintable():
        raise InputError(
            f"doorbell topic {topic[:80]!r}: expected printable text of 1 to {_LONGEST_TOPIC} bytes"
        )
    return topic
