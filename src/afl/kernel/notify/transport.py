"""A wire: what carries rings from those who ring to the ears; one per address and process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from afl.kernel.database import Transaction
from afl.kernel.joinable_thread import Companion
from afl.kernel.notify.subscription import Ear

_FAREWELL_SECONDS = 5.0


class Wire:
    """The ears of this process. By itself it reaches no further; the other wires extend it.

    What crosses processes is a hint: a wire that is broken says nothing, tries again for ever, and rings
    everyone once it is whole.
    """

    crosses_processes: ClassVar[bool] = False
    carried_by_commit: ClassVar[bool] = False  # whoever commits has rung for the other processes

    def __init__(self, name: str) -> None:
        self.name = name
        self.users = 0
        self._guard = threading.Lock()
        self._ears: set[Ear] = set()
        self._by_topic: dict[str, set[Ear]] = {}
        self._thread: Companion | None = None
        self._closing = threading.Event()
        _wires.add(self)

    def attach(self, ear: Ear) -> None:
        """From the moment this returns no ring is lost to the ear."""
        with self._guard:
            self._ears.add(ear)
            for topic in ear.topics:
                self._by_topic.setdefault(topic, set()).add(ear)
        self._begin()

    def detach(self, ear: Ear) -> None:
        with self._guard:
            self._ears.discard(ear)
            for topic in ear.topics:
                ears = self._by_topic.get(topic, set())
                ears.discard(ear)
                if not ears:
                    self._by_topic.pop(topic, None)

    def ears_of(self, owner: object) -> list[Ear]:
        """The ears that one doorbell has given out and that still hear."""
        with self._guard:
            return [ear for ear in self._ears if ear.owner is owner]

    def ring(self, topics: Iterable[str]) -> None:
        """Ring the ears of this process."""
        topics = frozenset(topics)
        with self._guard:
            ears = {ear for topic in topics for ear in self._by_topic.get(topic, ())}
        for ear in ears:
            ear.hear(topics)

    def ring_everyone(self) -> None:
        """Anything may have happened: let every ear of this process look."""
        with self._guard:
            ears = list(self._ears)
        for ear in ears:
            ear.hear(ear.topics)

    def ring_early(self) -> bool:
        """A commit is under way: let those look who wished to know. Whether nobody else listens."""
        with self._guard:
            ears = list(self._ears)
        for ear in ears:
            if ear.early:
                ear.hear(ear.early)
        return all(ear.early for ear in ears)

    def carry(self, topics: Iterable[str]) -> None:
        """Ring the other processes; never waits and never fails."""

    def carry_in(self, tx: Transaction, topic: str) -> None:
        """Make the ring part of a transaction, where a commit can carry one."""

    def attention(self) -> AbstractContextManager[None]:
        """Somebody waits within this block."""
        self._begin()  # in a forked child an ear may be older than the thread
        return nullcontext()

    def connected(self, timeout: float) -> bool:
        """Whether rings of other processes arrive, now or within some seconds."""
        return True

    def close(self) -> None:
        """End the thread; what was rung before is sent first, unless the wire is broken."""
        self._closing.set()
        self._interrupt()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            # It may be stuck in a connection attempt; then it ends by itself later.
            thread.join(_FAREWELL_SECONDS)

    def forked(self) -> None:
        """In the child: the ears are copied, the thread is not; what the parent holds open is left alone."""
        closed = self._closing.is_set()
        self._guard = threading.Lock()
        self._closing = threading.Event()
        if closed:
            self._closing.set()
        self._thread = None
        for ear in self._ears:
            ear.forked()

    def _begin(self) -> None:
        """Start the thread of this wire, if it needs one and does not have it."""

    def _interrupt(self) -> None:
        """Call the thread to attention."""

    def _start(self, name: str) -> None:
        with self._guard:
            if self._thread is None and not self._closing.is_set():
                self._thread = Companion(self._work, name)
                self._thread.start()

    def _work(self) -> None:
        """What the thread does until `_closing` is set."""


_wires: weakref.WeakSet[Wire] = weakref.WeakSet()


def _forked() -> None:
    for wire in list(_wires):
        wire.forked()


os.register_at_fork(after_in_child=_forked)
