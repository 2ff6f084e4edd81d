"""An SQLite file that can be read here and not written: on a read-only file system, or another user's.

SQLite reads a database with a write-ahead log only together with the log and its index (-wal, -shm), and makes both
when they are not there. Where it cannot, two cases are left. Without a log everything is in the database itself, and
no process can be writing: it is opened as immutable. With a log and without its index it is not opened at all: what the
log has would be missing without a word.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any, NoReturn
from urllib.parse import quote

from afl.kernel.errors import StoreReadOnly, StoreUnavailable


def is_read_only(path: str) -> bool:
    """Whether there is a database that this process may read, and cannot write to."""
    if not os.access(path, os.R_OK) or os.path.isdir(path):
        return False
    lock = f"{path}.writer"
    needed = lock if os.path.exists(lock) else os.path.dirname(path)
    return not (os.access(path, os.W_OK) and os.access(needed, os.W_OK))


def read_only_address(path: str) -> str:
    """The address under which SQLite reads the file."""
    plain = f"file:{quote(path)}?mode=ro"
    problem = _problem(plain)
    if problem is None:
        return plain
    if _has_log(path):
        raise StoreUnavailable(
            f"{path} cannot be read here ({problem}): its write-ahead log {path}-wal has not been taken over, and this "
            "directory is read-only; copy both files to where you may write, and name the copy with --store"
        )
    return f"{plain}&immutable=1"


def _problem(address: str) -> sqlite3.Error | None:
    connection = sqlite3.connect(address, uri=True)
    try:
        connection.execute("select 1 from sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        return error
    except sqlite3.Error:  # it is no database: the first read says so
        return None
    finally:
        connection.close()
    return None


def _has_log(path: str) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


class ReadOnlyWriter:
    """Takes the place of a Writer and refuses every write."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.shift = 0
        self.skips_time = False

    def write(self, work: object, *, durable: bool = True) -> NoReturn:
        self._refuse()

    def write_one(self, query: object, params: dict[str, Any], *, durable: bool = True) -> NoReturn:
        self._refuse()

    def close(self) -> None:
        return

    def pause(self) -> None:
        return

    def disconnect(self) -> None:
        return

    def resume(self) -> None:
        return

    def forked(self) -> None:
        return

    def _refuse(self) -> NoReturn:
        raise StoreReadOnly(
            f"{self.path} is read-only here: it can be read, but not changed; check the "
            "permissions of the file and its directory, and how the file system is mounted"
        )
