"""Stores for the tests of `afl.testing`, as its plugin makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.client.client import Client
from afl.testing.client import connected
from afl.testing.stores import PostgresStores, SqliteStores
from afl.testing.time_skipping import TimeSkipping


@pytest.fixture(scope="session")
def sqlite_stores(tmp_path_factory: pytest.TempPathFactory) -> SqliteStores:
    return SqliteStores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="session")
def postgres_stores(postgres_url: str) -> Iterator[PostgresStores]:
    with closing(PostgresStores(postgres_url)) as stores:
        yield stores


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    stores: SqliteStores | PostgresStores = request.getfixturevalue(f"{request.param}_stores")
    with stores.fresh(tmp_path) as url:
        yield url


@pytest.fixture
def opened(store_url: str) -> Iterator[tuple[Client, TimeSkipping]]:
    with connected(store_url) as found:
        yield found


@pytest.fixture
def flow(opened: tuple[Client, TimeSkipping]) -> Client:
    return opened[0]


@pytest.fixture
def clock(opened: tuple[Client, TimeSkipping]) -> TimeSkipping:
    return opened[1]
