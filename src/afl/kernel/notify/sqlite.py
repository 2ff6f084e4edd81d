"""The wire of an SQLite file: every commit, by whatever process, notifies every subscription."""

from __future__ import annotations

import contextlib
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from urllib.parse import quote

from afl.kernel.backoff import Backoff
from afl.kernel.notify.file_watch import FileWatch, file_identity
from afl.kernel.notify.subscription import Subscription
from afl.kernel.notify.transport import Transport
from afl.kernel.notify.watch_interval import Pace

LOOK_SECONDS = 0.002  # between looks where the kernel does not tell of writes
QUIET_SECONDS = 0.02  # without a commit, before a write is told early: among many it would help nobody
_EARLY_SECONDS = 0.001  # for whoever was told early to take what was committed

_log = logging.getLogger(__name__)
_RETRY = Backoff(0.05, cap=2.0)
_VERSION = "PRAGMA data_version"
_DEAF_AFTER = 3
_inherited: list[sqlite3.Connection] = []  # SQLite forbids to use or close what a parent process opened


class _Attention(AbstractContextManager[None]):
    """Somebody waits. Every wait begins and ends with it, so it is no generator."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(self, *_: object) -> None:
        self._count(-1)


class SqliteTransport(Transport):
    """One thread looks whether the file changed, as long as somebody waits; else it rests.

    It looks when the kernel tells that the write-ahead log was written to, and every second in case the kernel
    missed something; where it tells nothing, every 2 ms. What was committed while the thread rested shows at
    its first look, so no commit is missed. There are no topics in a file's version: every subscription hears every
    commit. Ears that wish to know early hear of the first write of one, too.
    """

    crosses_processes = True
    carried_by_commit = True

    def __init__(self, path: str, watch: Callable[[str], FileWatch] = FileWatch) -> None:
        super().__init__(f"sqlite:{path}")
        self._path = path
        self._new_watch = watch
        self._waiting = 0
        self._wanted = threading.Event()
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None
        self._watch: FileWatch | None = None
        self._pace = Pace()
        self._untold = 0  # changes since the kernel last told of a write
        self._opened: object = None
        self._rang = -math.inf

    def attach(self, subscription: Subscription) -> None:
        with self._guard:
            if self._thread is None:  # what was committed before anyone listened is no news
                with contextlib.suppress(sqlite3.Error):  # the thread meets it again, and tells
                    self._version = self._look()
        super().attach(subscription)

    def attention(self) -> AbstractContextManager[None]:
        self._begin()
        return _Attention(self.count)

    def forked(self) -> None:
        super().forked()
        self._waiting = 0
        self._wanted = threading.Event()
        self._version = None
        self._unwatch()  # the child would take away what the kernel has to tell the parent
        if self._connection is not None:
            _inherited.append(self._connection)
            self._connection = None

    def count(self, change: int) -> None:
        """More, or fewer, wait."""
        with self._guard:
            self._waiting += change
            if self._waiting:
                self._wanted.set()
            elif not self._closing.is_set():
                self._wanted.clear()

    def _begin(self) -> None:
        self._start("afl-notify-sqlite")

    def _interrupt(self) -> None:
        with self._guard:
            self._wanted.set()
            if self._watch is not None:
                self._watch.interrupt()

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
            changed = version != self._version
            if changed:
                self._version, self._rang = version, time.monotonic()
                self.notify_everyone()
            self._rest(changed)
        self._forget()

    def _rest(self, changed: bool) -> None:
        """Until another look is worth its while."""
        watch = self._watch
        if watch is None:
            time.sleep(LOOK_SECONDS)  # half the cost of waiting for an event with a timeout
            return
        self._untold += changed
        if self._untold == _DEAF_AFTER:  # one write may stand for two changes, never for more
            self._log_looks("commits arrive without word from the kernel")
            self._unwatch()
            return
        rest = self._pace.looked(time.monotonic(), changed=changed)
        time.sleep(rest.asleep)
        if self._closing.is_set():  # perhaps since before there was a watch to interrupt
            return
        if watch.wait(rest.listening):
            self._untold = 0
            self._pace.written()
            self._tell_early()
        elif self._identity() != self._opened:  # commits go elsewhere now
            self._forget()

    def _tell_early(self) -> None:
        """Somebody writes, after a quiet while. Looks would be in the way of those who have been told."""
        now = time.monotonic()
        if now - self._rang > QUIET_SECONDS:
            self._rang = now
            if self.notify_early():
                time.sleep(_EARLY_SECONDS)

    def _look(self) -> int:
        if self._connection is None:
            self._connection = self._open()
        version: int = self._connection.execute(_VERSION).fetchone()[0]
        return version

    def _open(self) -> sqlite3.Connection:
        file, _ = self._identity()
        # Read-only, so that closing it never folds the write-ahead log away under one who opens the file.
        address = f"file:{quote(self._path)}?mode=ro"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(_VERSION).fetchone()  # from now on the log is there, and nobody removes it
        except sqlite3.Error:
            connection.close()
            raise
        self._opened = file, self._identity()[1]
        self._pace, self._untold = Pace(), 0
        try:
            self._watch = self._new_watch(f"{self._path}-wal")
        except OSError as error:
            self._log_looks(error)
        return connection

    def _identity(self) -> tuple[object, object]:
        return file_identity(self._path), file_identity(f"{self._path}-wal")

    def _log_looks(self, why: object) -> None:
        _log.debug("looking at %s every %g s: %s", self._path, LOOK_SECONDS, why)

    def _unwatch(self) -> None:
        with self._guard:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _forget(self) -> None:
        """A version means nothing on another connection: the next look notifies everyone."""
        self._version = None
        self._unwatch()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
