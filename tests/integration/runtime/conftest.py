"""A MongoDB store, and its database as others see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from afl.runtime.mongo_store import MongoStore

Database = Any


@pytest.fixture
def store(empty_mongo_url: str) -> Iterator[MongoStore]:
    opened = MongoStore(empty_mongo_url)
    yield opened
    opened.close()


@pytest.fixture
def database(empty_mongo_url: str) -> Iterator[Database]:
    """The same database as an agent of another language sees it."""
    with MongoClient[dict[str, Any]](empty_mongo_url) as client:
        yield client.get_default_database()


@pytest.fixture
def new_database(mongo_database_url: str) -> Iterator[Database]:
    """A database without collections and indexes, as others see it."""
    with MongoClient[dict[str, Any]](mongo_database_url) as client:
        yield client.get_default_database()
