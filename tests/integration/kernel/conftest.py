"""Each kind of store, open and empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.kernel.database import Database, connect


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "memory":
        return "memory://"
    found: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_database")
    return found


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with connect(url) as opened:
        yield opened


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    with connect(sqlite_url) as opened:
        yield opened


@pytest.fixture
def postgres(postgres_database: str) -> Iterator[Database]:
    with connect(postgres_database) as opened:
        yield opened
