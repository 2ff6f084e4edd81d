"""`afl doctor` on stores with a server, and on the servers beside them: the real ones, with harmful settings too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig
from redis import Redis

from afl.devstack import temporary_stack
from afl.kernel.settings import load_settings
from afl.operations.doctor.diagnosis import diagnose
from afl.operations.doctor.store_checks import Finding, Level
from afl.runtime.entities import TaskDefinition
from afl.runtime.mongo_store import MongoStore
from afl.runtime.postgres_store import PostgresStore
from afl.turns.bus.nats import STREAMS


def found_in(store: str, **places: str) -> list[Finding]:
    found = list(diagnose(load_settings({"store": store, **places}, environ={})))
    assert all(each.remedy for each in found if each.is_wrong)
    return found


def wrong(found: list[Finding], check: str = "") -> list[str]:
    return [each.text for each in found if each.is_wrong and check in ("", each.check)]


@contextmanager
def with_setting(admin: psycopg.Connection[object], name: str, value: str) -> Iterator[None]:
    database = admin.info.dbname
    admin.execute(f"ALTER DATABASE {database} SET {name} = {value}")
    try:
        yield
    finally:
        admin.execute(f"ALTER DATABASE {database} RESET {name}")


def test_harmful_settings_of_postgresql(empty_postgres_url: str) -> None:
    """The server of the tests runs without fsync, as a test server may."""
    PostgresStore(empty_postgres_url).close()
    with psycopg.connect(empty_postgres_url, autocommit=True) as admin:
        with with_setting(admin, "synchronous_commit", "off"):
            found = found_in(empty_postgres_url)
        (fsync,) = admin.execute("SHOW fsync").fetchone() or ("",)
    expected = (
        ["fsync", "full_page_writes", "synchronous_commit"] if fsync == "off" else ["synchronous_commit"]
    )
    assert [text.partition(" ")[0] for text in wrong(found, "settings")] == expected
    assert all(each.level is Level.ERROR for each in found if each.check == "settings")
    assert wrong([each for each in found if each.check != "settings"]) == []
    names = {each.check for each in found}
    assert names >= {"server", "tables", "orphaned rows", "leases", "clock", "notifications", "vacuum"}
    assert names >= {"pooler", "connections"}


def test_orphans_and_versions_on_postgresql(empty_postgres_url: str) -> None:
    with closing(PostgresStore(empty_postgres_url)) as store:
        store.save_task(TaskDefinition("lonely", "t.Double", "", "gone", "", ""))
    assert wrong(found_in(empty_postgres_url), "orphaned rows") == [
        "1 open tasks whose run is not in the store: lonely"
    ]
    with psycopg.connect(empty_postgres_url, autocommit=True) as admin:
        admin.execute("UPDATE afl_schema SET version = version + 1 WHERE component = 'usage'")
        try:
            found = found_in(empty_postgres_url)
        finally:
            admin.execute("UPDATE afl_schema SET version = version - 1 WHERE component = 'usage'")
    assert [each.level for each in found if each.check == "tables"] == [Level.ERROR]
    assert "notifications" not in {each.check for each in found}  # a store of a newer version is not opened


def test_a_database_without_tables_gets_none(postgres_database: str) -> None:
    found = found_in(postgres_database)
    assert "no tables yet" in next(each.text for each in found if each.check == "tables")
    with psycopg.connect(postgres_database) as admin:
        assert admin.execute("SELECT to_regclass('afl_schema')").fetchone() == (None,)


def test_a_store_that_does_not_answer() -> None:
    for url in ("postgresql://me:secret@127.0.0.1:1/afl", "mongodb://me:secret@127.0.0.1:1/?replicaSet=rs0"):
        (found,) = (each for each in found_in(url) if each.is_wrong)
        assert found.level is Level.ERROR
        assert "secret" not in found.text


def test_a_mongodb_store(empty_mongo_url: str) -> None:
    """The server of the tests does not wait for its journal, as a test server may."""
    with closing(MongoStore(empty_mongo_url)) as store:
        store.save_task(TaskDefinition("lonely", "t.Double", "", "gone", "", ""))
        is_journaled = store.server_facts().is_journaled
    found = found_in(empty_mongo_url)
    settings = [text.partition(" ")[0] for text in wrong(found, "settings")]
    assert settings == ([] if is_journaled else ["writeConcernMajorityJournalDefault"])
    assert wrong([each for each in found if each.check != "settings"]) == [
        "1 open tasks whose run is not in the store: lonely"
    ]
    told = {each.check: each for each in found}
    assert "a replica set of 1" in told["server"].text
    assert (told["notifications"].level, told["clock"].level) == (Level.NOTE, Level.OK)


def test_redis_as_it_should_be(empty_sqlite_url: str, redis_url: str) -> None:
    found = [each for each in found_in(empty_sqlite_url, redis=redis_url) if each.check == "redis"]
    assert [each.level for each in found] == [Level.OK] * 4, found


def test_harmful_settings_of_redis() -> None:
    with temporary_stack() as stack:
        url = stack.up(["redis"])["redis"]
        with closing(Redis.from_url(url)) as redis:
            redis.config_set("maxmemory-policy", "allkeys-lru")
            redis.config_set("appendonly", "no")
            found = wrong(found_in("memory://", redis=url))
            assert [text.partition(":")[0] for text in found] == [
                "maxmemory-policy is allkeys-lru",
                "neither the append-only file nor snapshots are on",
            ]
            redis.config_set("save", "3600 1")
            levels = [each.level for each in found_in("memory://", redis=url) if each.is_wrong]
            assert levels == [Level.ERROR, Level.WARNING]


def test_nats_and_where_it_keeps_the_streams_of_turns() -> None:
    with temporary_stack() as stack:
        url = stack.up(["nats"])["nats"]
        assert wrong(found_in("memory://", bus=url, doorbell=url)) == []
        (text,) = wrong(found_in("memory://", bus=url.replace("nats:", "tls:")))
        assert "the address begins with tls:// and the server does not require TLS" in text
        asyncio.run(_stream_in_memory(url))
        (text,) = wrong(found_in("memory://", bus=url))
        assert "is kept in memory" in text


async def _stream_in_memory(url: str) -> None:
    client = Client()
    await client.connect(url)
    name, _ = STREAMS["cmd"]
    config = StreamConfig(name, subjects=["some.subject"], storage=StorageType.MEMORY)
    await client.jetstream().add_stream(config)
    await client.close()
