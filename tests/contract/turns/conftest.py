"""Both kinds of database, open and empty, with a small project on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.databases import fresh_postgres_database
from support.turns_house import TABLES, House

from afl.kernel.database import Database, connect
from afl.turns.tables import ensure_tables

KINDS = ("sqlite", "postgres")


# One database for the session: making the tables takes longer than most tests.
@pytest.fixture(scope="session")
def turns_postgres_url(postgres_url: str) -> Iterator[str]:
    with fresh_postgres_database(postgres_url) as url:
        with connect(url) as database:
            ensure_tables(database)
        yield url


def emptied(url: str) -> str:
    """Rows are deleted: that takes a tenth of the time of a truncate."""
    with psycopg.connect(url, autocommit=True) as admin:
        tables = ["state.relay", "state.bus_cursors", "state.outbox", "cardbox.box_cards", *TABLES]
        admin.execute("; ".join(f"delete from {table}" for table in tables))
    return url


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For tests with several connections or processes."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/afl.db"
    return emptied(request.getfixturevalue("turns_postgres_url"))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """For tests with one process: SQLite in memory, which waits for no disk."""
    url = "memory://" if request.param == "sqlite" else emptied(request.getfixturevalue("turns_postgres_url"))
    with connect(url) as opened:
        yield opened


@pytest.fixture
def house(database: Database) -> House:
    return House(database)
