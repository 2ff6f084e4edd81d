"""Every kind of store, open and empty. One suite (`test_store_*.py`) says what all of them promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient
from support.databases import fresh_mongo_database

from afl.runtime.memory_store import MemoryStore
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sqlite_store import SqliteStore

OpenStore = Callable[[], PersistenceAPI]


@pytest.fixture(scope="session")
def mongo_contract_url(mongo_url: str) -> Iterator[str]:
    """One database for the session: making its indexes takes longer than most tests."""
    with fresh_mongo_database(mongo_url) as url:
        MongoStore(url).close()
        yield url


@pytest.fixture
def empty_mongo_url(mongo_contract_url: str) -> str:
    with MongoClient[dict[str, object]](mongo_contract_url, w=1) as client:
        database = client.get_default_database()
        for name in database.list_collection_names():
            database[name].delete_many({})
    return mongo_contract_url


@pytest.fixture(params=["memory", "sqlite", "postgres", "mongo"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the test's database; again and again the same one, as several processes would."""
    opened: list[PersistenceAPI] = []

    def remember(store: PersistenceAPI) -> PersistenceAPI:
        opened.append(store)
        return store

    if request.param == "memory":
        memory = MemoryStore()  # nobody else can open it: its users share the object
        yield lambda: remember(memory)
    elif request.param == "sqlite":
        yield lambda: remember(SqliteStore(f"sqlite:///{tmp_path}/afl.db"))
    elif request.param == "postgres":
        url = request.getfixturevalue("postgres_database")
        yield lambda: remember(PostgresStore(url))
    else:
        url = request.getfixturevalue("empty_mongo_url")
        yield lambda: remember(MongoStore(url))
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> PersistenceAPI:
    return open_store()
