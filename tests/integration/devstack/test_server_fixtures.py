"""The fixtures that every other test relies on give real, separate, working servers."""

from __future__ import annotations

import asyncio

import nats
import psycopg
import pytest
import redis
from pymongo import MongoClient
from support.databases import fresh_postgres_database
from support.servers import SessionServers


def test_each_postgres_database_is_fresh(postgres_database: str, postgres_url: str) -> None:
    with fresh_postgres_database(postgres_url) as other:
        for url in (postgres_database, other):
            with psycopg.connect(url) as connection:
                connection.execute("CREATE TABLE same_name (id int)")
        assert postgres_database != other


def test_a_postgres_database_is_dropped_although_somebody_is_connected(postgres_url: str) -> None:
    with fresh_postgres_database(postgres_url) as url:
        lingering = psycopg.connect(url)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    lingering.close()


def test_redis_runs_scripts(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        client.set("devstack:key", "value")
        assert client.eval("return redis.call('GET', KEYS[1])", 1, "devstack:key") == "value"
        client.delete("devstack:key")


def test_nats_has_jetstream(nats_url: str) -> None:
    async def roundtrip() -> bytes:
        client = await nats.connect(nats_url)
        jetstream = client.jetstream()
        await jetstream.add_stream(name="devstack", subjects=["devstack.>"])
        await jetstream.publish("devstack.one", b"hello")
        subscription = await jetstream.subscribe("devstack.one", ordered_consumer=True)
        message = await subscription.next_msg(timeout=10)
        await jetstream.delete_stream("devstack")
        await client.close()
        return bytes(message.data)

    assert asyncio.run(roundtrip()) == b"hello"


def test_mongo_has_transactions(mongo_database_url: str) -> None:
    with MongoClient[dict[str, object]](mongo_database_url) as client:
        things = client.get_default_database().things
        with client.start_session() as session, session.start_transaction():
            things.insert_one({"name": "kept"}, session=session)
        with client.start_session() as session:
            session.start_transaction()
            things.insert_one({"name": "lost"}, session=session)
            session.abort_transaction()
        assert [thing["name"] for thing in things.find()] == ["kept"]


def test_a_url_in_the_environment_takes_precedence(
    servers: SessionServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for service in ("postgres", "redis", "nats", "mongo"):
        monkeypatch.setenv(f"AFL_TEST_{service.upper()}_URL", f"{service}://given")
        assert servers.url(service) == f"{service}://given"
