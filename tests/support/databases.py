"""Databases for tests, on servers that many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.write_concern import WriteConcern

# One statement, whatever tables there are by now. Without triggers the order of the tables does not matter.
# Deleting takes a tenth of the time of a truncate. Numbers begin with 1 again. Who holds a liveness lock stays known:
# databases stay open between tests.
_EMPTY = """
do $$
declare
    found regclass;
begin
    perform set_config('session_replication_role', 'replica', true);
    perform setval(c.oid, 1, false) from pg_class c where c.relkind = 'S';
    for found in
        select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind = 'r' and n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema'
            and c.relname not in ('afl_schema', 'afl_presence') and pg_relation_size(c.oid) > 0
    loop
        execute 'delete from ' || found;
    end loop;
end $$
"""


class EmptyPostgres:
    """One database for the tests of a worker process, and the connection that empties it between them.

    Each part makes its tables when it first opens the database, which takes longer than most tests.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._admin = psycopg.connect(url, autocommit=True)

    def emptied(self) -> str:
        """The URL of the database, which has no row."""
        self._admin.execute(_EMPTY)
        return self._url

    def close(self) -> None:
        self._admin.close()


class EmptyMongo:
    """The same on MongoDB."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._admin = MongoClient[dict[str, Any]](url)

    def emptied(self) -> str:
        """The URL of the database, which has no document."""
        database = self._admin.get_default_database()
        names = database.list_collection_names()
        filled = list(database[names[0]].aggregate(_one_of_each(names))) if names else []
        for left, found in zip(range(len(filled) - 1, -1, -1), filled, strict=True):
            concern = WriteConcern(
                1 if left else "majority"
            )  # who reads what a majority has sees the last one gone
            database[found["of"]].with_options(write_concern=concern).delete_many({})
        return self._url

    def close(self) -> None:
        self._admin.close()


def _one_of_each(names: list[str]) -> list[dict[str, Any]]:
    """A pipeline on the first collection: the name of each that has a document. Most have none, and asking takes one
    round trip."""
    first, *others = ([{"$limit": 1}, {"$project": {"_id": 0, "of": {"$literal": name}}}] for name in names)
    unions = zip(names[1:], others, strict=True)
    return [*first, *({"$unionWith": {"coll": name, "pipeline": each}} for name, each in unions)]


def spare_disk_and_time(server_url: str) -> None:
    """A server that is killed loses nothing by this: only a machine that loses power would."""
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("ALTER SYSTEM SET full_page_writes = off")
        admin.execute("ALTER SYSTEM SET max_wal_size = '256MB'")  # the disk may be memory
        # To check a password takes a server longer than the rest of a connection, and tests make thousands of them.
        (rules,) = admin.execute("SHOW hba_file").fetchone() or ("",)
        Path(rules).write_text("host all all 127.0.0.1/32 trust\n")
        admin.execute("SELECT pg_reload_conf()")


def spare_time(server_url: str) -> None:
    """A transaction that a killed process left open blocks what it wrote until the server ends it: in 60 s usually.

    And no commit waits for the journal, which is a third of the server's work: only who loses the server loses them.
    """
    with MongoClient[dict[str, Any]](server_url) as client:
        client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=5)
        config = client.admin.command("replSetGetConfig")["config"]
        if config["writeConcernMajorityJournalDefault"]:
            config |= {"version": config["version"] + 1, "writeConcernMajorityJournalDefault": False}
            with suppress(OperationFailure):  # another worker process does it just now
                client.admin.command("replSetReconfig", config)


@contextmanager
def fresh_postgres_database(server_url: str) -> Iterator[str]:
    """The URL of a new, empty database; it is dropped afterwards, whoever is still connected."""
    with psycopg.connect(server_url, autocommit=True) as admin, created_database(admin) as name:
        yield with_database(server_url, name)


@contextmanager
def created_database(admin: psycopg.Connection[Any]) -> Iterator[str]:
    """The name of a new database."""
    name = f"test_{uuid4().hex}"
    admin.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    try:
        yield name
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
