"""All rows of an SQLite database into the tables of the same names in a PostgreSQL one: all of them, or none."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import psycopg
from psycopg import sql

from afl.kernel.database.postgres import PostgresDatabase
from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.database.sqlite_file import connect_sqlite
from afl.kernel.errors import InputError, StoreError

# Versions of tables, which the other database has itself; processes of this one; what is made from other tables.
_LEFT_OUT = frozenset({"afl_schema", "afl_servers", "afl_search", "afl_search_queue", "afl_search_runs"})
_OURS = re.compile("afl_|state_|cardbox_|resource_|schedule$")  # the databases may have tables of others
_BATCH = 1_000


class _Table(NamedTuple):
    name: str  # in SQLite, where a schema is part of the name
    schema: str
    table: str
    columns: list[str]
    is_apart: bool  # not in the schema of the runtime

    @property
    def target(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.table)

    @property
    def named(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self.columns))


def copy_tables(
    source: SqliteDatabase, target: PostgresDatabase, progress: Callable[[str, int], object]
) -> dict[str, int]:
    """How many rows each table had. Nobody else writes to the source meanwhile.

    InputError if the target has rows already: two stores cannot become one.
    """
    with closing(connect_sqlite(source.path, source.path)) as read, target.new_connection() as write:
        read.row_factory = None
        read.execute("begin immediate")
        try:
            with write.transaction():
                tables = _tables(read, write)
                full = [each.name for each in tables if _has_rows(write, each)]
                if full:
                    raise InputError(f"{target.name} is not empty: there are rows in {', '.join(full)}")
                return {each.name: _copy(read, write, each, progress) for each in tables}
        except psycopg.Error as error:
            raise StoreError(f"{target.name}: {str(error).strip()}; nothing was copied") from error
        finally:
            read.execute("rollback")


def _tables(read: sqlite3.Connection, write: psycopg.Connection[dict[str, object]]) -> list[_Table]:
    """Those that both have, in the order in which they were made: what refers to another comes after it."""
    found = write.execute(
        "select table_schema, table_name, table_schema <> current_schema() as apart from information_schema.tables "
        "where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')"
    )
    there = {
        f"{each['table_schema']}_{each['table_name']}" if each["apart"] else str(each["table_name"]): each
        for each in found.fetchall()
    }
    tables = []
    for (name,) in read.execute(
        "select name from sqlite_master where type = 'table' order by rowid"
    ).fetchall():
        if name in _LEFT_OUT or name not in there or not _OURS.match(name):
            continue
        columns = [each[1] for each in read.execute(f'pragma table_info("{name}")')]
        at = there[name]
        tables.append(
            _Table(name, str(at["table_schema"]), str(at["table_name"]), columns, bool(at["apart"]))
        )
    return tables


def _has_rows(write: psycopg.Connection[dict[str, object]], table: _Table) -> bool:
    return (
        write.execute(sql.SQL("select 1 as found from {} limit 1").format(table.target)).fetchone()
        is not None
    )


def _copy(
    read: sqlite3.Connection,
    write: psycopg.Connection[dict[str, object]],
    table: _Table,
    progress: Callable[[str, int], object],
) -> int:
    # Triggers there guard against wrong transitions; these rows have gone through theirs.
    triggers = sql.SQL("alter table {} {} trigger user")
    if table.is_apart:
        write.execute(triggers.format(table.target, sql.SQL("disable")))
    count = 0
    into = sql.SQL("copy {} ({}) from stdin").format(table.target, table.named)
    quoted = ", ".join(f'"{each}"' for each in table.columns)
    rows = read.execute(f'select {quoted} from "{table.name}"')
    with write.cursor() as cursor, cursor.copy(into) as copy:
        while batch := rows.fetchmany(_BATCH):
            for row in batch:
                copy.write_row(row)
            count += len(batch)
            progress(table.name, count)
    if table.is_apart:
        write.execute(triggers.format(table.target, sql.SQL("enable")))
    _go_on_counting(write, table)
    return count


def _go_on_counting(write: psycopg.Connection[dict[str, object]], table: _Table) -> None:
    """A column that counts upwards continues behind the rows that are there."""
    identities = write.execute(
        "select column_name from information_schema.columns where is_identity = 'YES' and table_schema = %s "
        "and table_name = %s",
        (table.schema, table.table),
    )
    for each in identities.fetchall():
        column = str(each["column_name"])
        greatest = sql.SQL("select max({}) from {}").format(sql.Identifier(column), table.target)
        continued = sql.SQL("select setval(pg_get_serial_sequence({}, {}), greatest(1, ({})))")
        write.execute(continued.format(table.target.as_string(write), column, greatest))
