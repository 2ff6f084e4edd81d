"""Queues by the drivers alone: one row is claimed and completed after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import psycopg

from bench.report import seconds


def raw_postgres_loop(url: str) -> Callable[[int], float]:
    """A single-row SKIP LOCKED claim-and-complete loop; rows per second."""

    def loop(size: int) -> float:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop table if exists raw_queue")
            connection.execute("create table raw_queue (id bigserial primary key, state text not null)")
            connection.execute("create index on raw_queue (id) where state = 'pending'")
            connection.execute(
                "insert into raw_queue (state) select 'pending' from generate_series(1, %s)", [size]
            )

            def work() -> None:
                while row := connection.execute(
                    "update raw_queue set state = 'running' where id = (select id from raw_queue "
                    "where state = 'pending' order by id limit 1 for update skip locked) returning id"
                ).fetchone():
                    connection.execute("update raw_queue set state = 'done' where id = %s", row)

            return size / seconds(work)

    return loop


def raw_sqlite_loop(folder: Path) -> Callable[[int], float]:
    """The same on SQLite, each statement a commit of its own."""

    def loop(size: int) -> float:
        connection = sqlite3.connect(folder / "raw_queue.db", isolation_level=None)
        for statement in (
            "pragma journal_mode = wal",
            "pragma synchronous = full",
            "drop table if exists raw_queue",
            "create table raw_queue (id integer primary key, state text not null)",
            "create index raw_queue_pending on raw_queue (id) where state = 'pending'",
            "begin",
        ):
            connection.execute(statement)
        connection.executemany("insert into raw_queue (state) values (?)", [("pending",)] * size)
        connection.execute("commit")

        def work() -> None:
            while row := connection.execute(
                "update raw_queue set state = 'running' where id = (select id from raw_queue "
                "where state = 'pending' order by id limit 1) returning id"
            ).fetchall():
                connection.execute("update raw_queue set state = 'done' where id = ?", row[0])

        took = seconds(work)
        connection.close()
        return size / took

    return loop
