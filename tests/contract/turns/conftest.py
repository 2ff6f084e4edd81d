"""Both kinds of database, open and empty, with a small project on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kept_memory import kept_memory
from support.turns_house import House

from afl.kernel.database import Database

KINDS = ("sqlite", "postgres")


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For tests with several connections or processes."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/afl.db"
    found: str = request.getfixturevalue("empty_postgres_url")
    return found


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """For tests with one process: SQLite in memory, which waits for no disk."""
    if request.param == "postgres":
        with request.getfixturevalue("kept_postgres").take() as opened:
            yield opened
    else:
        with kept_memory() as opened:
            yield opened


@pytest.fixture
def house(database: Database) -> House:
    return House(database)
