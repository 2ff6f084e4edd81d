"""The file of an SQLite store, for those who only look at what is there."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from afl.kernel.database.sqlite_file import foreign_table
from afl.kernel.errors import StoreCorrupt, StoreUnavailable
from afl.kernel.redaction import redacted


def store_place(store: str) -> str:
    """Where a store is, as people are told: the whole path of a file, or an address without its secrets."""
    if not store.startswith("sqlite:///"):
        return redacted(store)
    return os.path.abspath(unquote(store.removeprefix("sqlite:///")))


def require_file(store: str) -> None:
    """StoreUnavailable if a store is a file that nobody has made yet; StoreCorrupt for a database without our tables.

    Who only looks must not add tables to a database that was named by mistake.
    """
    if not store.startswith("sqlite:///"):
        return
    path = store_place(store)
    if not Path(path).exists():
        missing = StoreUnavailable(
            f"there is no store {path} yet; `afl run`, `afl submit` or `afl turns worker` creates it, "
            "or name another with --store"
        )
        above = _above(Path(unquote(store.removeprefix("sqlite:///"))))
        # The hint of its class is for a server that does not answer.
        missing.hint = f"A folder above this one has a store: --store {above}" if above else ""
        raise missing
    table = foreign_table(path)
    if table:
        raise StoreCorrupt(
            f"{path} is the SQLite database of another program (it has a table {table}, and none of AgentFlow's); "
            "name another file, or let `afl run`, `afl submit` or afl.connect add the tables"
        )


def _above(path: Path) -> Path | None:
    """The store of that relative path in the nearest folder above the current one."""
    folders = () if path.is_absolute() else Path.cwd().parents
    return next((folder / path for folder in folders if (folder / path).is_file()), None)
