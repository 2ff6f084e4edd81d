"""A store that outgrew its file: everything in it, copied to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from afl.kernel.database.copying import copy_tables
from afl.kernel.database.postgres import PostgresDatabase
from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.errors import InputError
from afl.kernel.presence.files import FilePresence
from afl.kernel.redaction import redacted
from afl.kernel.schedule import SCHEMA as SCHEDULES
from afl.operations.store_file import require_file, store_place
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.stores.sql_store.alerts import SCHEMA as ALERTS
from afl.turns.store.tables import ensure_tables


@dataclass(frozen=True)
class Copied:
    """What a copy took over; `tables` has the rows of each."""

    source: str
    target: str
    runs: int
    rows: int
    tables: dict[str, int]


def copy_store(
    source: str, target: str, progress: Callable[[str, int], object] = lambda table, rows: None
) -> Copied:
    """Copy an SQLite store into a PostgreSQL one without rows; all of it or nothing.

    Nobody may work on the source: the runs would go on in both.
    """
    if not source.startswith("sqlite:///") or not target.startswith(("postgresql://", "postgres://")):
        raise InputError(
            f"a store is copied from sqlite:/// to postgresql://, not from {redacted(source)} to {redacted(target)}"
        )
    require_file(source)
    with closing(SqliteStore(source)) as old, closing(PostgresStore(target)) as new:
        for store in (old, new):
            ensure_tables(store.database)
            for schema in (ALERTS, SCHEDULES):  # which are made when they are first used
                store.database.ensure(schema)
            store.ensure_search()
        assert isinstance(old.database, SqliteDatabase) and isinstance(new.database, PostgresDatabase)
        presence = old.database.presence
        assert isinstance(presence, FilePresence)
        working = [presence.describe(each) for each in presence.others()]
        if working:
            raise InputError(f"{store_place(source)} is in use by {', '.join(working)}; stop it first")
        old.reclaim()  # the death of a process of this machine is proved here, and nowhere else
        tables = copy_tables(old.database, new.database, progress)
    return Copied(
        store_place(source),
        redacted(target),
        tables.get("afl_runs", 0),
        sum(tables.values()),
        tables,
    )
