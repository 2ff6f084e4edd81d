"""The connections by which one process reads an SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident

IDLE_READERS = 8


class Readers:
    """Idle connections, and the threads that have one."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False
        self._reading: list[int] = []  # a thread for each read
        self.forked()

    def take(self) -> sqlite3.Connection:
        """A connection for this thread alone, until it gives it back."""
        with self._guard:
            self._reading.append(get_ident())
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except BaseException:
            self._ended()
            raise

    def give_back(self, connection: sqlite3.Connection) -> None:
        if not self._closed and len(self._idle) < IDLE_READERS:
            self._idle.append(connection)
        else:
            connection.close()
        self._ended()

    def close(self) -> None:
        self._closed = True
        self._disconnect()

    def pause(self) -> None:
        """Let the reads of other threads end, begin none, and close every idle connection."""
        self._guard.acquire()
        self._pausing = True
        self._free.wait_for(lambda: all(thread == get_ident() for thread in self._reading))
        self._disconnect()

    def resume(self) -> None:
        self._pausing = False
        self._guard.release()

    def forked(self) -> None:
        """In a forked child: its other threads do not exist."""
        self._guard = threading.Lock()
        self._free = threading.Condition(self._guard)
        self._reading = [thread for thread in self._reading if thread == get_ident()]
        self._pausing = False

    def _ended(self) -> None:
        with self._guard:
            self._reading.remove(get_ident())
            if self._pausing:
                self._free.notify()

    def _disconnect(self) -> None:
        while self._idle:
            self._idle.pop().close()
