"""Both ways to run turns: SQLite with the local bus, PostgreSQL with NATS."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from support.databases import fresh_postgres_database
from support.turns_house import TABLES
from support.turns_office import Place

from afl.kernel.database import connect
from afl.turns.tables import ensure_tables

_ALSO = ("state.relay", "state.bus_cursors", "state.outbox", "state.identity_edges", "state.pmo_batch_tasks")
_FIRST = (*_ALSO, "state.pmo_batches", "cardbox.box_cards")


@pytest.fixture(scope="session")
def office_postgres_url(postgres_url: str) -> Iterator[str]:
    """One database for the session: making the tables takes longer than most tests."""
    with fresh_postgres_database(postgres_url) as url:
        with connect(url) as database:
            ensure_tables(database)
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "sqlite":
        return Place("memory://", None)
    url = request.getfixturevalue("office_postgres_url")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("; ".join(f"delete from {table}" for table in (*_FIRST, *TABLES)))
    return Place(url, request.getfixturevalue("nats_url"))
