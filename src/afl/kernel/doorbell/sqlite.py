"""The wire of an SQLite file: every commit, by whatever process, rings every ear."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from afl.kernel.backoff import Backoff
from afl.kernel.doorbell.ear import Ear
from afl.kernel.doorbell.wire import Wire

LOOK_SECONDS = 0.002

_log = logging.getLogger(__name__)
_RETRY = Backoff(0.05, cap=2.0)
_inherited: list[sqlite3.Connection] = []  # SQLite forbids to use or close what a parent process opened


class SqliteWire(Wire):
    """One thread looks every 2 ms whether the file changed, as long as somebody waits; else it rests.

    What was committed while it rested shows at its first look, so no commit is missed. There are no topics
    in a file's version: every ear hears every commit.
    """

    crosses_processes = True
    carried_by_commit = True

    def __init__(self, path: str) -> None:
        super().__init__(f"sqlite:{path}")
        self._path = path
        self._waiting = 0
        self._wanted = threading.Event()
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None

    def attach(self, ear: Ear) -> None:
        with self._guard:
            if self._thread is None:  # what was committed before anyone listened is no news
                with contextlib.suppress(sqlite3.Error):  # the thread meets it again, and tells
                    self._version = self._look()
        super().attach(ear)

    @contextmanager
    def attention(self) -> Iterator[None]:
        self._begin()
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def forked(self) -> None:
        super().forked()
        self._waiting = 0
        self._wanted = threading.Event()
        self._version = None
        if self._connection is not None:
            _inherited.append(self._connection)
            self._connection = None

    def _count(self, change: int) -> None:
        with self._guard:
            self._waiting += change
            if self._waiting:
                self._wanted.set()
            elif not self._closing.is_set():
                self._wanted.clear()

    def _begin(self) -> None:
        self._start("afl-doorbell-sqlite")

    def _interrupt(self) -> None:
        with self._guard:
            self._wanted.set()

    def _work(self) -> None:
        failures = 0
        while self._wanted.wait() and not self._closing.is_set():
            try:
                version = self._look()
            except sqlite3.Error as error:
                failures += 1
                self._forget()
                if failures == 1:
                    _log.warning("cannot watch %s: %s; workers fall back to polling", self._path, error)
                self._closing.wait(_RETRY.delay(failures))
                continue
            failures = 0
            if version != self._version:
                self._version = version
                self.ring_everyone()
            time.sleep(LOOK_SECONDS)  # half the cost of waiting for an event with a timeout
        self._forget()

    def _look(self) -> int:
        if self._connection is None:
            # Read-only, so that closing it never folds the write-ahead log away under one who opens the file.
            address = f"file:{quote(self._path)}?mode=ro"
            self._connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False
            )
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _forget(self) -> None:
        """A version means nothing on another connection: the next look rings everyone."""
        self._version = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
