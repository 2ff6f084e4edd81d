"""A wire with a server at the far end: what is notified waits here until its thread has sent it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from afl.kernel.notify.transport import Transport

_LAST_WORDS_SECONDS = 2.0


class ServerTransport(Transport):
    """Rings are handed to the thread, so that ringing never waits for a network.

    While the server is away they gather, each topic once, and are sent when it is back. Closing waits for what is
    on its way, since a short command notifies and ends before there is even a connection; not if that is broken.
    """

    crosses_processes = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._forget_parent()

    def carry(self, topics: Iterable[str]) -> None:
        if self._closing.is_set():
            return
        self._put_back(topics)
        self._begin()
        self._interrupt()

    def connected(self, timeout: float) -> bool:
        self._begin()
        return self._whole.wait(timeout)

    def close(self) -> None:
        self._flushed.wait(_LAST_WORDS_SECONDS)
        super().close()

    def forked(self) -> None:
        super().forked()
        self._forget_parent()

    def _forget_parent(self) -> None:
        self._unsent: set[str] = set()  # after a fork the parent sends what it rang
        self._whole = threading.Event()
        self._broken = False
        self._flushed = threading.Event()  # nothing is on its way, or there is no way
        self._flushed.set()

    def _take_unsent(self) -> list[str]:
        with self._guard:
            topics = sorted(self._unsent)
            self._unsent.clear()
            return topics

    def _put_back(self, topics: Iterable[str]) -> None:
        with self._guard:
            self._unsent.update(topics)
            if self._unsent and not self._broken:
                self._flushed.clear()

    def _have_sent(self) -> None:
        with self._guard:
            if not self._unsent:
                self._flushed.set()

    def _is_whole(self) -> None:
        """The server is there (again): whatever was notified meanwhile is lost, so let everyone look."""
        self._broken = False
        self.notify_everyone()
        self._whole.set()

    def _is_broken(self) -> None:
        with self._guard:
            self._broken = True
            self._whole.clear()
            self._flushed.set()
