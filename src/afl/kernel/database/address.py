"""From a URL to an open database."""

from __future__ import annotations

import importlib
import os
import re
from urllib.parse import unquote

from afl.kernel.database.base import Database
from afl.kernel.database.sqlite import MemoryDatabase, SqliteDatabase
from afl.kernel.errors import InputError, StoreUnavailable
from afl.kernel.file_lock import LOCK_TIMEOUT_MS
from afl.kernel.private_files import make_private_folder

DEFAULT_URL = "sqlite:///.afl/afl.db"
_PASSWORD = re.compile(r"(://[^:/@]*):.*@", re.DOTALL)
_FORMS = (
    "sqlite:///file.db (relative), sqlite:////absolute/file.db, memory:// or postgresql://user@host/database"
)


def connect(url: str = DEFAULT_URL, *, lock_timeout_ms: int = LOCK_TIMEOUT_MS) -> Database:
    """Open the store a URL names; every problem is a StoreError that says what to do.

    `lock_timeout_ms` is how long a write to an SQLite file waits for other processes.
    """
    scheme = url.partition("://")[0]
    if url == "memory://":
        return MemoryDatabase(url)
    if scheme == "sqlite":
        return _sqlite(url, lock_timeout_ms)
    if scheme in ("postgresql", "postgres"):
        # Only here, since its driver is an optional dependency.
        database: Database = importlib.import_module("afl.kernel.database.postgres").PostgresDatabase(url)
        return database
    raise InputError(f"{safe_url(url)!r} names no store; expected {_FORMS}")


def _sqlite(url: str, lock_timeout_ms: int) -> SqliteDatabase:
    path = unquote(url.removeprefix("sqlite:///"))
    if path == url or not path or path == ":memory:":
        raise InputError(f"{url!r} names no file; expected {_FORMS}")
    if url == DEFAULT_URL:
        _make_default_folder(os.path.dirname(path))
    return SqliteDatabase(url, path, lock_timeout_ms)


def _make_default_folder(folder: str) -> None:
    try:
        make_private_folder(folder)
    except OSError as error:
        raise StoreUnavailable(
            f"cannot make the folder {os.path.abspath(folder)} of the default store ({error.strerror}); "
            "name another store with AFL_STORE or --store"
        ) from error


def safe_url(url: str) -> str:
    """The URL for messages: without password, whatever characters it has, and without options."""
    return _PASSWORD.sub(r"\1:***@", url).partition("?")[0]
