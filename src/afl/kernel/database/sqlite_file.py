"""What one process shares about one SQLite file: its writer, its readers, its clock and its presence.

Two Database objects on the same file must not hold two writers: POSIX locks do not exclude within a process,
and closing one descriptor would drop the other's lock. So files are looked up by their real path and counted.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from afl.kernel.boot import boot_id
from afl.kernel.clock import steady_ms, wall_ms
from afl.kernel.database.base import Transaction
from afl.kernel.database.file_lock import FileLock
from afl.kernel.database.queries import queries
from afl.kernel.database.sqlite_read_only import ReadOnlyWriter, is_read_only, read_only_address
from afl.kernel.database.sqlite_transaction import ReadTransaction, failure
from afl.kernel.database.sqlite_writer import Writer
from afl.kernel.errors import StoreCorrupt, StoreUnavailable
from afl.kernel.filesystem import network_type
from afl.kernel.presence.files import FilePresence

T = TypeVar("T")
Q = queries("afl.kernel.database", "sql")
IDLE_READERS = 8
_FOREIGN_WAIT_SECONDS = 60.0
_SEEN_EVERY_MS = 60_000


class SqliteFile:
    """One file, open. Get it with `open_file`, give it back with `close_file`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.users = 0
        self._readers: deque[sqlite3.Connection] = deque()
        self._lock: FileLock | None = None
        self.writer: Writer | ReadOnlyWriter
        self.presence = FilePresence(f"{path}.live")
        self._address = path
        if is_read_only(path):
            self._address = read_only_address(path)
            self.writer = ReadOnlyWriter(path)
        else:
            self._lock = _writer_lock(path)
            self.writer = Writer(path, self._lock, self._connect_writer)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def shift(self) -> int:
        """What to add to the machine's steady clock to get the store's."""
        return self.writer.shift

    def read(self, work: Callable[[Transaction], T]) -> T:
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect_reader()
        tx = ReadTransaction(connection, self.path, self.shift)
        try:
            connection.execute("BEGIN")
            return work(tx)
        finally:
            tx.end()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(connection)

    def close(self) -> None:
        while self._readers:
            self._readers.pop().close()
        self.presence.close()
        self.writer.close()
        if self._lock is not None:
            self._lock.close()

    def forked(self) -> None:
        """In the child: SQLite forbids to use or close what the parent opened, so keep it and open anew."""
        _inherited.extend(self._readers)
        self._readers.clear()
        self.presence.forked()
        connection = self.writer.forked()
        if connection is not None:
            _inherited.append(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if self.users > 0 and len(self._readers) < IDLE_READERS:
            self._readers.append(connection)
        else:
            connection.close()

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
            connection.execute("PRAGMA journal_size_limit = 67108864")
        except sqlite3.Error as error:
            connection.close()
            raise failure(error, self.path, "open") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        """Make sure the file is ours, and find how its clock relates to this boot of the machine."""
        if self._lock is None:
            self.writer.shift = self.read(lambda tx: _read_clock(tx, self.path)[0])
        else:
            self.writer.shift = self.writer.write(lambda tx: _set_clock(tx, self.path))
        self._inode = os.stat(self.path).st_ino

    def check(self) -> None:
        """SQLite goes on writing to a file that was deleted under it; nobody would find that again."""
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


def open_file(path: str) -> SqliteFile:
    """The file at a path, shared with everyone in this process who has it open."""
    real = os.path.realpath(path)
    with _registry:
        file = _files.get(real)
        if file is None:
            file = _files[real] = SqliteFile(real)
        file.check()
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
        return FileLock(f"{path}.writer")
    except FileNotFoundError as error:
        raise StoreUnavailable(
            f"the directory {folder} does not exist; create it, or name another path"
        ) from error
    except OSError as error:
        raise StoreUnavailable(
            f"cannot write in {folder} ({error.strerror}); check the permissions of that directory"
        ) from error


def _set_clock(tx: Transaction, path: str) -> int:
    if not tx.all(Q.tables):
        tx.run(Q.create_clock)
    shift, stale = _read_clock(tx, path)
    if stale:
        tx.run(Q.set_clock, boot=boot_id(), shift=shift, seen=steady_ms() + shift)
    return shift


def _read_clock(tx: Transaction, path: str) -> tuple[int, bool]:
    """What to add to the steady clock, and whether the store should be told."""
    tables = {row["name"] for row in tx.all(Q.tables)}
    if "afl_clock" not in tables:
        what = f"the SQLite database of another program (it has a table {min(tables)})" if tables else "empty"
        raise StoreCorrupt(f"{path} is {what}; name another file")
    known = tx.one(Q.read_clock)
    boot, steady, wall = boot_id(), steady_ms(), wall_ms()
    seen = known["seen"] if known is not None else 0
    shift: int = known["shift"] if known is not None and known["boot"] == boot else max(wall, seen) - steady
    return shift, known is None or known["boot"] != boot or steady + shift > seen + _SEEN_EVERY_MS


_registry = threading.Lock()
_files: dict[str, SqliteFile] = {}
_inherited: list[sqlite3.Connection] = []


def _forked_files() -> None:
    global _registry
    _registry = threading.Lock()
    for file in _files.values():
        file.forked()


os.register_at_fork(after_in_child=_forked_files)
