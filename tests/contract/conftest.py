"""Every kind of store, open and empty. One suite (`test_store_*.py`) says what all of them promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pymongo import MongoClient
from store_records import KINDS, MANY, OpenStore
from support.databases import fresh_mongo_database, fresh_postgres_database

from afl.runtime.memory_store import MemoryStore
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sql_store import few_rows
from afl.runtime.sqlite_store import SqliteStore


# One database of each server for the session: making its tables and indexes takes longer than most tests.
@pytest.fixture(scope="session")
def shared_mongo_url(mongo_url: str) -> Iterator[str]:
    with fresh_mongo_database(mongo_url) as url:
        MongoStore(url).close()
        yield url


@pytest.fixture
def empty_mongo_url(shared_mongo_url: str) -> str:
    with MongoClient[dict[str, object]](shared_mongo_url, w=1) as client:
        database = client.get_default_database()
        for name in database.list_collection_names():
            database[name].delete_many({})
    return shared_mongo_url


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_url: str) -> Iterator[str]:
    with fresh_postgres_database(postgres_url) as url:
        PostgresStore(url).close()
        yield url


@pytest.fixture
def empty_postgres_url(shared_postgres_url: str) -> str:
    with psycopg.connect(shared_postgres_url, autocommit=True) as admin:
        tables = "select tablename from pg_tables where schemaname = 'public' and tablename <> 'afl_schema'"
        for (table,) in admin.execute(tables).fetchall():
            admin.execute(sql.SQL("delete from {}").format(sql.Identifier(table)))
    return shared_postgres_url


@pytest.fixture(params=list(KINDS))
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
    elif request.param in ("postgres", MANY):
        url = request.getfixturevalue("empty_postgres_url")
        if request.param == MANY:
            request.getfixturevalue("monkeypatch").setattr(few_rows, "MOST", -1)
        yield lambda: remember(PostgresStore(url))
    else:
        url = request.getfixturevalue("empty_mongo_url")
        yield lambda: remember(MongoStore(url))
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> PersistenceAPI:
    return open_store()
