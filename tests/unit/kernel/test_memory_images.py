"""Stores in memory that are opened after the first: their tables are copies, and are the store's own."""

from __future__ import annotations

import pytest

from afl.kernel.database import Database, Query, connect
from afl.kernel.errors import StoreError
from afl.kernel.schedule import SCHEMA as SCHEDULE
from afl.runtime.stores.sql_store.usage_tables import SCHEMA as USAGE

TABLES = Query.of("select name, sql from sqlite_master order by name")
MAKE = Query.of("create table mine (n integer)")
FILL = Query.of("insert into mine values (7)")
LOOK = Query.of("select n from mine")


def tables(database: Database) -> dict[str, str]:
    return {row["name"]: row["sql"] for row in database.select(TABLES)}


def test_every_store_has_the_tables_of_the_first() -> None:
    found = []
    for _ in range(3):
        with connect("memory://") as database:
            database.ensure(USAGE)
            database.ensure(SCHEDULE)
            database.ensure(USAGE)
            found.append(tables(database))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 3


def test_the_order_of_schemas_does_not_matter() -> None:
    with connect("memory://") as one, connect("memory://") as other:
        one.ensure(USAGE)
        one.ensure(SCHEDULE)
        other.ensure(SCHEDULE)
        other.ensure(USAGE)
        assert tables(one) == tables(other)


def test_what_was_written_before_stays() -> None:
    with connect("memory://") as other:
        other.ensure(USAGE)
    with connect("memory://") as database:
        database.atomic(MAKE)
        database.atomic(FILL)
        database.ensure(USAGE)
        assert [row["n"] for row in database.select(LOOK)] == [7]
        assert "afl_schema" in tables(database)


def test_what_one_store_writes_is_not_in_the_next() -> None:
    for _ in range(2):
        with connect("memory://") as database:
            database.ensure(USAGE)
            database.atomic(MAKE)
            database.ensure(SCHEDULE)
    with connect("memory://") as database:
        database.ensure(USAGE)
        database.ensure(SCHEDULE)
        assert "mine" not in tables(database)


def test_a_store_that_is_closed_or_in_use_by_this_thread_refuses() -> None:
    with connect("memory://") as database:
        database.ensure(USAGE)
        with pytest.raises(StoreError, match="inside a transaction"):
            database.read(lambda tx: database.ensure(SCHEDULE))
    with pytest.raises(StoreError, match="closed"):
        database.ensure(SCHEDULE)
