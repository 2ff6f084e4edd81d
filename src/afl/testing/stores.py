"""Fresh stores for tests, whose time can be skipped. Tables are made once, in a template; each test gets a copy of it.

Time is skipped by an offset in the store's clock. An SQLite file has it in a table that other files do not have. In a
PostgreSQL database, a schema on its search path has a `clock_timestamp()` that is found before PostgreSQL's own, which
is what all queries call; so stores that are not for tests have nothing to do with it.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.errors import InputError
from afl.runtime.schedules import WorkflowSchedules
from afl.runtime.store import open_store
from afl.runtime.stores.sql_store import SqlStore

SCHEMA = "afl_time_skipping"
# Stable: it reads the offset in the snapshot of its statement, and so together with the leases that moved.
_CLOCK = f"""
create schema {SCHEMA};
create table {SCHEMA}.skipped (ms bigint not null);
insert into {SCHEMA}.skipped values (0);
create function {SCHEMA}.clock_timestamp() returns timestamptz language sql stable as $$
    select pg_catalog.clock_timestamp() + ms * interval '1 millisecond' from {SCHEMA}.skipped
$$;
"""


class SqliteStores:
    """SQLite files, each in a folder that the caller names."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template.db"
        store = _made(f"sqlite:///{self._template}")
        assert isinstance(store.database, SqliteDatabase)
        store.database.allow_time_skipping()
        store.close()

    @contextmanager
    def fresh(self, folder: Path) -> Iterator[str]:
        """The URL of a store without runs, in this folder."""
        yield f"sqlite:///{shutil.copyfile(self._template, folder / 'afl.db')}"

    def close(self) -> None:
        """Nothing is left to do: the folder belongs to the caller."""


class PostgresStores:
    """Databases on a PostgreSQL server, each dropped when it has been used. The user must be allowed to create them."""

    def __init__(self, url: str) -> None:
        importlib.import_module(
            "afl.kernel.database.postgres"
        )  # says how to get the driver if it is not there
        psycopg = importlib.import_module("psycopg")
        self._url = url
        self._admin: Any = psycopg.connect(url, autocommit=True)
        self._template = self._create()
        _made(self._at(self._template)).close()
        with psycopg.connect(self._at(self._template)) as connection:
            connection.execute(_CLOCK)

    @contextmanager
    def fresh(self, folder: Path) -> Iterator[str]:
        """The URL of a store without runs."""
        name = self._create(self._template)
        self._admin.execute(f'alter database "{name}" set search_path = public, {SCHEMA}, pg_catalog')
        try:
            yield self._at(name)
        finally:
            self._drop(name)

    def close(self) -> None:
        """Drop the template."""
        self._drop(self._template)
        self._admin.close()

    def _at(self, database: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{database}"))

    def _create(self, template: str = "template1") -> str:
        name = f"afl_test_{uuid4().hex}"
        self._admin.execute(f'create database "{name}" template "{template}"')
        return name

    def _drop(self, name: str) -> None:
        self._admin.execute(f'drop database if exists "{name}" with (force)')


def stores_at(url: str, folder: Path) -> SqliteStores | PostgresStores:
    """Where fresh stores come from: a PostgreSQL server, or without a URL files of SQLite."""
    if not url:
        return SqliteStores(folder)
    if not url.startswith(("postgres://", "postgresql://")):
        raise InputError(f"afl_store_url takes the URL of a PostgreSQL database, not {url.partition(':')[0]}")
    return PostgresStores(url)


def _made(url: str) -> SqlStore:
    """A store with all the tables that its workers make."""
    store = open_store(url)
    assert isinstance(store, SqlStore)
    WorkflowSchedules(store)
    return store
