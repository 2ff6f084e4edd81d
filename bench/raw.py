"""The raw limit: one-row commits by the driver alone, with nothing of AgentFlow in between."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

import psycopg

from bench.report import seconds


class Raw(Protocol):
    """A store seen through its driver."""

    def commit(self) -> None:
        """Insert one row and make it durable."""


class RawSqlite:
    """WAL and synchronous=FULL, as the store has it."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
        for statement in (
            "pragma journal_mode = wal",
            "pragma synchronous = full",
            "create table if not exists raw (id integer primary key, text text)",
        ):
            self._connection.execute(statement)

    def commit(self) -> None:
        """Insert one row and make it durable."""
        self._connection.execute("begin immediate")
        self._connection.execute("insert into raw (text) values (?)", ("x" * 50,))
        self._connection.execute("commit")


class RawPostgres:
    """One connection, fsync on."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("create table if not exists raw (id bigserial primary key, text text)")

    def commit(self) -> None:
        """Insert one row and make it durable."""
        self._connection.execute("insert into raw (text) values (%s)", ("x" * 50,))


def commit_seconds(raw: Raw, count: int) -> float:
    """Seconds per one-row commit."""

    def loop() -> None:
        for _ in range(count):
            raw.commit()

    return seconds(loop) / count
