"""A database of its own for one test, on a server that many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from pymongo import MongoClient


@contextmanager
def fresh_postgres_database(server_url: str) -> Iterator[str]:
    """The URL of a new, empty database; it is dropped afterwards, whoever is still connected."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        try:
            yield with_database(server_url, name)
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def fresh_mongo_database(server_url: str) -> Iterator[str]:
    """A URL with a database name nobody else uses; the database is dropped afterwards."""
    name = f"test_{uuid4().hex}"
    yield with_database(server_url, name)
    with MongoClient[dict[str, object]](server_url) as client:
        client.drop_database(name)


def with_database(server_url: str, name: str) -> str:
    """The same server, credentials and options, another database."""
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
