"""Every kind of store, open and empty. One suite (`test_store_*.py`) says what all of them promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pymongo import MongoClient
from store_records import KINDS, OpenStore
from support.databases import EmptyMongo
from support.kept import KeptDatabases

from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.stores.mongo.connection import Client


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
        kept: KeptDatabases = request.getfixturevalue("kept_postgres")
        yield lambda: remember(kept.store())
    else:
        client: Client = request.getfixturevalue("indexed_mongo")
        name = client.get_default_database().name
        yield lambda: remember(MongoStore("", name, create_indexes=False, client=client))
    for store in opened:
        store.close()


@pytest.fixture(scope="session")
def _mongo_client(_shared_mongo: EmptyMongo) -> Iterator[Client]:
    """One for all tests of the process: to connect, and to ask for all indexes, takes longer than most tests."""
    url = _shared_mongo.emptied()
    MongoStore(url).close()
    with MongoClient(url, appname="agentflow") as client:
        yield client


@pytest.fixture
def indexed_mongo(_mongo_client: Client, empty_mongo_url: str) -> Client:
    """The client of a MongoDB database without documents, with all indexes of the store."""
    return _mongo_client


@pytest.fixture
def store(open_store: OpenStore) -> PersistenceAPI:
    return open_store()
