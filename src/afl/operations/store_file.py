"""The file of an SQLite store, for those who only look at what is there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from afl.kernel.database.sqlite_file import foreign_table
from afl.kernel.errors import StoreCorrupt, StoreUnavailable


def require_file(store: str) -> None:
    """StoreUnavailable if a store is a file that nobody has made yet; StoreCorrupt for a database without our tables.

    Who only looks must not add tables to a database that was named by mistake.
    """
    if not store.startswith("sqlite:///"):
        return
    path = unquote(store.removeprefix("sqlite:///"))
    if not Path(path).exists():
        missing = StoreUnavailable(
            f"there is no store {path} yet; `afl run`, `afl submit` or `afl turns worker` creates it, "
            "or name another with --store"
        )
        missing.hint = ""  # that of its class is for a server that does not answer
        raise missing
    table = foreign_table(path)
    if table:
        raise StoreCorrupt(
            f"{path} is the SQLite database of another program (it has a table {table}, and none of AgentFlow's); "
            "name another file, or let `afl run`, `afl submit` or afl.connect add the tables"
        )
