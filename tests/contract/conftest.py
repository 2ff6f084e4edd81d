"""Every kind of store, open and empty. One suite (`test_store_*.py`) says what all of them promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from store_records import KINDS, OpenStore
from support.databases import EmptyMongo

from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sqlite_store import SqliteStore


@pytest.fixture(params=list(KINDS))
def open_store(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Opens the test's database; again and again the same one, as several processes would."""
    opened: list[PersistenceAPI] = []

    def remember(store: PersistenceAPI) -> PersistenceAPI:
        opened.append(store)
        return store

    if request.param == "sqlite":
        file = request.getfixturevalue("empty_sqlite_url")
        yield lambda: remember(SqliteStore(file))
    elif request.param == "postgres":
        url = request.getfixturevalue("empty_postgres_url")
        yield lambda: remember(PostgresStore(url))
    else:
        url = request.getfixturevalue("indexed_mongo_url")
        yield lambda: remember(MongoStore(url, create_indexes=False))
    for store in opened:
        store.close()


@pytest.fixture(scope="session")
def _mongo_indexes(_shared_mongo: EmptyMongo) -> None:
    """To ask for all indexes takes two thirds of the time of opening a store, and they are never dropped."""
    MongoStore(_shared_mongo.emptied()).close()


@pytest.fixture
def indexed_mongo_url(_mongo_indexes: None, empty_mongo_url: str) -> str:
    """The URL of a MongoDB database without documents, with all indexes of the store."""
    return empty_mongo_url


@pytest.fixture
def store(open_store: OpenStore) -> PersistenceAPI:
    return open_store()
