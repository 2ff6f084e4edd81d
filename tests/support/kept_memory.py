"""Databases in memory that are used again. A new one compiles every statement: a third of what a short run takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from afl.kernel.database import Database, Query, Transaction, connect
from afl.runtime.stores.sql_store import SqlStore

_FILLED = Query.of(
    "select name from pragma_table_list where schema = 'main' and type in ('table', 'virtual')"
    " and name not in ('afl_schema', 'sqlite_schema')"
)
_LATER = Query.of("pragma defer_foreign_keys = on")  # to the end of the transaction, so any order will do
_idle: list[Database] = []


@cache
def _emptied(table: str) -> Query:
    return Query.of(f"delete from {table}")


def take_memory() -> Database:
    """A database in memory without rows; its tables may be there."""
    return _idle.pop() if _idle else connect("memory://")


def give_back(database: Database) -> None:
    """Whoever takes it next finds no row of this one."""

    def empty(tx: Transaction) -> None:
        tx.run(_LATER)
        for table in tx.all(_FILLED):
            tx.run(_emptied(table["name"]))

    database.write(empty)
    _idle.append(database)


@contextmanager
def kept_memory() -> Iterator[Database]:
    """A database in memory without rows. After an exception it is not used again."""
    database = take_memory()
    yield database
    give_back(database)


def kept_store() -> SqlStore:
    """A store in memory, whose database is to be given back."""
    return SqlStore(take_memory())


@contextmanager
def kept_memory_store() -> Iterator[SqlStore]:
    """A store in memory. After an exception its database is not used again."""
    with kept_memory() as database:
        yield SqlStore(database)
