"""The transport of an SQLite file: every commit, by any process, notifies every subscription."""

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
from afl.kernel.notify.file_watch import FileWatch, WatchInterval, file_identity
from afl.kernel.notify.subscription import Subscription
from afl.kernel.notify.transport import Transport

READ_SECONDS = 0.002  # between reads where the kernel does not report writes
QUIET_SECONDS = (
    0.02  # without a commit, before the first write of one is reported early: among many it gains nothing
)
_EARLY_SECONDS = 0.001  # for early subscribers to read what was committed

_log = logging.getLogger(__name__)
_RETRY = Backoff(0.05, cap=2.0)
_VERSION = "PRAGMA data_version"
_UNREPORTED_MAX = 3


class _Waiting(AbstractContextManager[None]):
    """Counts a waiting thread. Every wait begins and ends with it, so it is no generator: those are slower."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(self, *_: object) -> None:
        self._count(-1)


class SqliteTransport(Transport):
    """One thread reads the version of the file while a subscription waits; else it sleeps.

    It reads when the kernel reports a write to the write-ahead log, and every second in case the kernel missed one;
    where the kernel reports nothing, every 2 ms. A commit during its sleep is found by its first read, so none is
    missed. A file's version has no topics: every subscription receives every commit. Early subscriptions are notified
    of the first write of a commit, too.
    """

    crosses_processes = True

    def sent_by_commit(self) -> bool:
        return True

    def __init__(self, path: str, watch: Callable[[str], FileWatch] = FileWatch) -> None:
        super().__init__(f"sqlite:{path}")
        self._path = path
        self._new_watch = watch
        self._waiting = 0
        self._wanted = threading.Event()
        self._connection: sqlite3.Connection | None = None
        self._in_use = threading.Lock()  # the connection
        self._opened_count = 0
        self._version: tuple[int, int] | None = None  # it means nothing on another connection
        self._watch: FileWatch | None = None
        self._interval = WatchInterval()
        self._unreported = 0  # changes since the kernel last reported a write
        self._opened: object = None
        self._notified_at = -math.inf

    def attach(self, subscription: Subscription) -> None:
        with self._guard:
            if self._thread is None:  # earlier commits are not notified
                with contextlib.suppress(sqlite3.Error):  # the thread meets it again, and logs it
                    self._version = self._read_version()
        super().attach(subscription)

    def waiting(self) -> AbstractContextManager[None]:
        self._begin()
        return _Waiting(self.count)

    def pause(self) -> None:
        """SQLite forbids to carry a connection through a fork; the log may be another file after it."""
        with self._guard:
            if self._watch is not None:
                self._watch.interrupt()
        self._in_use.acquire()
        self._disconnect()

    def resume(self) -> None:
        self._in_use.release()

    def forked(self) -> None:
        super().forked()
        self._in_use = threading.Lock()
        self._waiting = 0
        self._wanted = threading.Event()
        self._unwatch()  # the child would read the kernel's reports to the parent

    def count(self, change: int) -> None:
        """Add to the number of waiting threads."""
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
                version = self._read_version()
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
                self._version, self._notified_at = version, time.monotonic()
                self.deliver_all()
            self._pause(changed)
        self._forget()

    def _pause(self, changed: bool) -> None:
        """Wait until the next read."""
        watch = self._watch
        if watch is None:
            time.sleep(READ_SECONDS)  # half the cost of waiting for an event with a timeout
            return
        self._unreported += changed
        if self._unreported == _UNREPORTED_MAX:  # one write may stand for two changes, never for more
            self._log_reads("the kernel does not report commits")
            self._unwatch()
            return
        pause = self._interval.after_read(time.monotonic(), changed=changed)
        time.sleep(pause.asleep)
        if self._closing.is_set():  # perhaps since before there was a watch to interrupt
            return
        if watch.wait(pause.watching):
            self._unreported = 0
            self._interval.written()
            self._deliver_early()
        elif self._identity() != self._opened:  # commits go elsewhere now
            self._forget()

    def _deliver_early(self) -> None:
        """A write after a quiet while. Reads of this thread would slow down the early subscribers."""
        now = time.monotonic()
        if now - self._notified_at > QUIET_SECONDS:
            self._notified_at = now
            if self.deliver_early():
                time.sleep(_EARLY_SECONDS)

    def _read_version(self) -> tuple[int, int]:
        with self._in_use:
            if self._connection is None:
                self._connection = self._open()
            return self._opened_count, self._connection.execute(_VERSION).fetchone()[0]

    def _open(self) -> sqlite3.Connection:
        file, _ = self._identity()
        # Read-only, so that closing it never folds the write-ahead log away under one who opens the file.
        address = f"file:{quote(self._path)}?mode=ro"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(_VERSION).fetchone()  # from now on the log exists, and no process removes it
        except sqlite3.Error:
            connection.close()
            raise
        self._opened = file, self._identity()[1]
        self._opened_count += 1
        self._interval, self._unreported = WatchInterval(), 0
        if self._watch is not None:
            self._unwatch()
        try:
            self._watch = self._new_watch(f"{self._path}-wal")
        except OSError as error:
            self._log_reads(error)
        return connection

    def _identity(self) -> tuple[object, object]:
        return file_identity(self._path), file_identity(f"{self._path}-wal")

    def _log_reads(self, why: object) -> None:
        _log.debug("reading %s every %g s: %s", self._path, READ_SECONDS, why)

    def _unwatch(self) -> None:
        with self._guard:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _forget(self) -> None:
        self._unwatch()
        with self._in_use:
            self._disconnect()

    def _disconnect(self) -> None:
        """The next read notifies every subscription."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
