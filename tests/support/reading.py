"""What PostgreSQL reads for a statement whose plan was made while the tables were nearly empty, once they are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from afl.kernel.database import Database, Query

_TOLD = Query.of("select pg_stat_force_next_flush() as done", name="told")
_COUNTED = Query.of(
    "select (select coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables)"
    " + (select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes) as found",
    name="counted",
)
_COLUMNS = Query.of(
    "select column_name as name from information_schema.columns"
    " where table_schema = :space and table_name = :tab and is_identity = 'NO' order by ordinal_position",
    name="columns",
)


def rows_read(database: Database, act: Callable[[], object]) -> int:
    """How many rows and entries of indexes an act reads; it must be this thread's, with one connection."""
    before = _so_far(database)
    act()
    return _so_far(database) - before


def _so_far(database: Database) -> int:
    database.select(_TOLD)
    return int(database.select(_COUNTED)[0]["found"])


def multiply(database: Database, tables: Mapping[str, Sequence[str]], times: int) -> None:
    """Each row of the tables so many times more; the columns that are named get a value of their own each time."""
    for table, own in tables.items():
        space, _, name = table.rpartition(".")
        found = database.select(_COLUMNS, space=space or "public", tab=name)
        columns = [row["name"] for row in found]
        assert set(own) <= set(columns), f"{table} has no column {set(own) - set(columns)}"
        values = [
            f"case when {column} = '' then '' else {column} || '~' || n end" if column in own else column
            for column in columns
        ]
        query = Query.of(
            f"insert into {table} ({', '.join(columns)}) select {', '.join(values)}"
            f" from {table} cross join generate_series(1, {times}) as n",
            name="multiply",
        )
        database.write(lambda tx, query=query: tx.run(query))  # type: ignore[misc]
