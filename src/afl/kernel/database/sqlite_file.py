"""What one process shares about one SQLite file: its writer, its readers, its clock and its presence.

Two Database objects on the same file must not hold two writers: POSIX locks do not exclude within a process,
and closing one descriptor would drop the other's lock. So files are looked up by their real path and counted.

SQLite forbids to carry a connection through a fork: the child knows of its locks and does not hold them, so others
delete the write-ahead log to which the child writes. So all connections are closed before a fork, and both sides open
new ones.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from afl.kernel.boot import boot_id
from afl.kernel.clock import steady_ms, wall_ms
from afl.kernel.database.base import Transaction
from afl.kernel.database.queries import queries
from afl.kernel.database.sqlite_read_only import ReadOnlyWriter, is_read_only, read_only_address
from afl.kernel.database.sqlite_readers import Readers
from afl.kernel.database.sqlite_transaction import ReadTransaction, failure, skipped_ms
from afl.kernel.database.sqlite_writer import Writer
from afl.kernel.errors import StoreCorrupt, StoreUnavailable
from afl.kernel.file_lock import LOCK_TIMEOUT_MS, FileLock, LockHolder
from afl.kernel.filesystem import network_type
from afl.kernel.presence.files import FilePresence
from afl.kernel.private_files import make_private_file

T = TypeVar("T")
Q = queries("afl.kernel.database", "sql")
_FOREIGN_WAIT_SECONDS = 60.0
_WRITER_WAIT_MS = 250  # then it looks how long it has waited in all
_SEEN_EVERY_MS = 60_000
_CLOCK = "afl_clock"


class SqliteFile:
    """One file, open. Get it with `open_file`, give it back with `close_file`."""

    def __init__(self, path: str, lock_timeout_ms: int) -> None:
        self.path = path
        self.users = 0
        self._readers = Readers(self._connect_reader)
        self._lock: FileLock | None = None
        self.writer: Writer | ReadOnlyWriter
        self._address = path
        if is_read_only(path):
            self._address = read_only_address(path)
            self.writer = ReadOnlyWriter(path)
        else:
            self._lock = _writer_lock(path)
            self.wait_for_lock(lock_timeout_ms)
            self.writer = Writer(path, self._lock, self._connect_writer)
        self.presence = FilePresence(f"{path}.live", _mode(path))
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def shift(self) -> int:
        """What to add to the machine's steady clock to get the store's."""
        return self.writer.shift

    @property
    def skipped_ms(self) -> int:
        """How far the clock is ahead by time that a test skipped."""
        if not self.writer.skips_time:
            return 0
        rows = self.read(lambda tx: tx.all(Q.skipped_time))
        return sum(row["ms"] for row in rows)

    def wait_for_lock(self, milliseconds: int) -> None:
        """How long a write waits for other processes from now on."""
        if self._lock is not None:
            self._lock.limit = milliseconds / 1000

    def stuck(self) -> LockHolder | None:
        """The process that keeps everybody from writing, if there is one."""
        return None if self._lock is None else self._lock.stuck()

    def read(self, work: Callable[[Transaction], T]) -> T:
        connection = self._readers.take()
        tx: ReadTransaction | None = None
        try:
            connection.execute("BEGIN")
            shift = self.shift + skipped_ms(connection) if self.writer.skips_time else self.shift
            tx = ReadTransaction(connection, self.path, shift)
            return work(tx)
        finally:
            if tx is not None:
                tx.end()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._readers.give_back(connection)

    def close(self) -> None:
        self._readers.close()
        self.presence.close()
        self.writer.close()
        if self._lock is not None:
            self._lock.close()

    def pause(self) -> None:
        """Before a fork: let the transactions of other threads end, begin none, and close all connections."""
        self.writer.pause()
        self._readers.pause()
        self.writer.disconnect()

    def resume(self) -> None:
        """After a fork, in the parent."""
        self._readers.resume()
        self.writer.resume()

    def forked(self) -> None:
        """After a fork, in the child."""
        self._readers.forked()
        self.presence.forked()
        connection = self.writer.forked()
        if connection is not None:  # the fork was inside a transaction; it must stay open
            _inherited.append(connection)

    def _connect_reader(self) -> sqlite3.Connection:
        connection = connect_sqlite(self._address, self.path, uri=self._address != self.path)
        connection.execute("PRAGMA query_only = on")
        return connection

    def _connect_writer(self) -> sqlite3.Connection:
        """Called under the file's lock: two that turn on the write-ahead log at once disturb each other."""
        connection = connect_sqlite(self.path, self.path)
        try:
            mode = connection.execute("PRAGMA journal_mode = wal").fetchone()[0]
            if mode != "wal":
                raise StoreUnavailable(
                    f"{self.path}: the file system cannot do SQLite's WAL mode; use a local disk"
                )
            connection.execute("PRAGMA synchronous = full")
            connection.execute(f"PRAGMA busy_timeout = {_WRITER_WAIT_MS}")
            connection.execute("PRAGMA journal_size_limit = 67108864")
        except sqlite3.Error as error:
            connection.close()
            raise failure(error, self.path, "open") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        """Make sure the file is ours, and find how its clock relates to this boot of the machine.

        A process that only reads must not wait for a writer, so the lock is taken only for what does not exist yet.
        """
        clock = self.read(lambda tx: _known_clock(tx, self.path)) if _has_content(self.path) else None
        if clock is not None:
            self.writer.shift = clock.shift
            if clock.is_stale and self._lock is not None:
                self._refresh_clock(self._lock)
        elif self._lock is None:
            self.writer.shift = self.read(lambda tx: _next_shift(tx, self.path))
        else:
            self.writer.shift = self.writer.write(lambda tx: _set_clock(tx, self.path))
        self.writer.skips_time = self.read(lambda tx: tx.one(Q.has_skipped_time)) is not None
        self._inode = os.stat(self.path).st_ino

    def _refresh_clock(self, lock: FileLock) -> None:
        """Store the current time, unless another process is writing, which does so as well."""
        limit, lock.limit = lock.limit, 0.0
        try:
            self.writer.write(lambda tx: _set_clock(tx, self.path))
        except StoreUnavailable:
            pass
        finally:
            lock.limit = limit

    def check(self) -> None:
        """SQLite would go on writing to a deleted file, and those writes would be lost."""
        if not os.path.exists(self.path) or os.stat(self.path).st_ino != self._inode:
            raise StoreUnavailable(
                f"{self.path} was deleted or replaced while this process has it open; close it first"
            )


def connect_sqlite(target: str, path: str, *, uri: bool = False) -> sqlite3.Connection:
    """A connection without Python's own transaction handling, for any thread that has it to itself."""
    try:
        connection = sqlite3.connect(
            target,
            timeout=_FOREIGN_WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
            uri=uri,
        )
    except sqlite3.Error as error:
        raise failure(error, path, "open") from error
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = on")
    # A list, or a sort, is a table for a moment: to get ready for its file takes longer than most statements.
    connection.execute("PRAGMA temp_store = memory")
    return connection


def open_file(path: str, lock_timeout_ms: int = LOCK_TIMEOUT_MS) -> SqliteFile:
    """The file at a path, shared with everyone in this process who has it open; the last says how long to wait."""
    real = os.path.realpath(path)
    with _registry:
        file = _files.get(real)
        if file is None:
            file = _files[real] = SqliteFile(real, lock_timeout_ms)
        file.check()
        file.wait_for_lock(lock_timeout_ms)
        file.users += 1
        return file


def close_file(file: SqliteFile) -> None:
    """Give the file back; the last to do so closes it."""
    with _registry:
        file.users -= 1
        if file.users == 0:
            del _files[file.path]
            file.close()


def _writer_lock(path: str) -> FileLock:
    """Refuse what cannot work before anything is created, each with its own reason."""
    folder = os.path.dirname(path)
    network = network_type(folder)
    if network is not None:
        raise StoreUnavailable(
            f"{path} is on a network file system ({network}), where SQLite's locks cannot be trusted; "
            "use a local disk, or PostgreSQL to share a store between machines"
        )
    if os.path.isdir(path):
        raise StoreUnavailable(f"{path} is a directory; name a file in it, for example {path}/afl.db")
    try:
        make_private_file(path)
        return FileLock(f"{path}.writer", mode=_mode(path))
    except FileNotFoundError as error:
        raise StoreUnavailable(
            f"the directory {folder} does not exist; create it, or name another path"
        ) from error
    except OSError as error:
        raise StoreUnavailable(
            f"cannot write in {folder} ({error.strerror}); check the permissions of that directory"
        ) from error


def _mode(path: str) -> int:
    """Who may use the file may use what lies beside it, as SQLite does with its own."""
    return os.stat(path).st_mode & 0o666


@dataclass(frozen=True, slots=True)
class _Clock:
    """What a file knows of its clock in this boot of the machine."""

    shift: int
    seen: int

    @property
    def is_stale(self) -> bool:
        return steady_ms() + self.shift > self.seen + _SEEN_EVERY_MS


def _has_content(path: str) -> bool:
    """Whether the file is in use already: a new one must be initialized under the lock."""
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False


def _known_clock(tx: Transaction, path: str) -> _Clock | None:
    """The clock, unless the file has none yet or the machine has started anew since."""
    if not _has_clock(tx, path):
        return None
    known = tx.one(Q.read_clock)
    return _Clock(known["shift"], known["seen"]) if known is not None and known["boot"] == boot_id() else None


def _has_clock(tx: Transaction, path: str) -> bool:
    """Whether our tables are there. They may be added to the tables of an application, but not to a file format."""
    tables = {row["name"] for row in tx.all(Q.tables)}
    if _CLOCK in tables:
        return True
    known = tx.one(Q.application_id)
    if known is not None and known["application_id"] != 0:
        raise StoreCorrupt(
            f"{path} is a document of another program (its application_id is {known['application_id']}); "
            "name another file"
        )
    return False


def foreign_table(path: str) -> str:
    """A table of a database that has none of ours; empty if it is a store, or there is nothing to be read yet."""
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
            tables = {name for (name,) in connection.execute(Q.tables.sqlite)}
    except sqlite3.Error:  # what is wrong with it is said when it is opened
        return ""
    return min(tables) if tables and _CLOCK not in tables else ""


def _next_shift(tx: Transaction, path: str) -> int:
    """The shift of a clock that was last seen in another boot of the machine."""
    if not _has_clock(tx, path):
        raise StoreCorrupt(f"{path} has no tables of AgentFlow; name another file")
    last = tx.one(Q.read_clock)
    return max(wall_ms(), last["seen"] if last is not None else 0) - steady_ms()


def _set_clock(tx: Transaction, path: str) -> int:
    if not _has_clock(tx, path):
        tx.run(Q.create_clock)
    clock = _known_clock(tx, path)
    if clock is None:
        shift = _next_shift(tx, path)
    elif clock.is_stale:
        shift = clock.shift
    else:
        return clock.shift
    tx.run(Q.set_clock, boot=boot_id(), shift=shift, seen=steady_ms() + shift)
    return shift


_registry = threading.Lock()
_files: dict[str, SqliteFile] = {}
_inherited: list[sqlite3.Connection] = []


def _pause_files() -> None:
    _registry.acquire()
    for file in _files.values():
        file.pause()


def _resume_files() -> None:
    for file in _files.values():
        file.resume()
    _registry.release()


def _forked_files() -> None:
    global _registry
    _registry = threading.Lock()
    for file in _files.values():
        file.forked()


os.register_at_fork(before=_pause_files, after_in_parent=_resume_files, after_in_child=_forked_files)
