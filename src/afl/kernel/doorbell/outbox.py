"""A wire with a server at the far end: what is rung waits here until its thread has sent it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from afl.kernel.doorbell.wire import Wire


class ServerWire(Wire):
    """Rings are handed to the thread, so that ringing never waits for a network.

    While the server is away they gather, each topic once, and are sent when it is back.
    """

    crosses_processes = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._unsent: set[str] = set()
        self._whole = threading.Event()

    def carry(self, topics: Iterable[str]) -> None:
        if self._closing.is_set():
            return
        self._put_back(topics)
        self._begin()
        self._interrupt()

    def connected(self, timeout: float) -> bool:
        self._begin()
        return self._whole.wait(timeout)

    def forked(self) -> None:
        super().forked()
        self._unsent = set()  # the parent sends what it rang
        self._whole = threading.Event()

    def _take_unsent(self) -> list[str]:
        with self._guard:
            topics = sorted(self._unsent)
            self._unsent.clear()
            return topics

    def _put_back(self, topics: Iterable[str]) -> None:
        with self._guard:
            self._unsent.update(topics)

    def _is_whole(self) -> None:
        """The server is there (again): whatever was rung meanwhile is lost, so let everyone look."""
        self._whole.set()
        self.ring_everyone()
