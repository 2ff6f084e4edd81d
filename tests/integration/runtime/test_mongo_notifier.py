"""The notifier of the MongoDB store: local to the process, or a NATS server for all processes."""

from __future__ import annotations

import pytest

from afl.kernel.errors import InputError
from afl.kernel.presence import Life
from afl.runtime.entities import TaskDefinition
from afl.runtime.mongo_store import MongoStore
from afl.runtime.store import open_store

SECONDS = 60.0


def a_task(uuid: str) -> TaskDefinition:
    return TaskDefinition(uuid, "ns.F", "r", "run", "f", "")


def test_stores_of_one_database_hear_each_other_within_a_process(
    store: MongoStore, empty_mongo_url: str
) -> None:
    other = MongoStore(empty_mongo_url)
    assert not other.notifier.crosses_processes
    with other.subscribe(["tasks:default"]) as subscription:
        store.save_task(a_task("t"))
        assert subscription.wait(SECONDS) == {"tasks:default"}
    other.close()


def test_stores_of_other_databases_hear_nothing(store: MongoStore, mongo_url: str) -> None:
    elsewhere = MongoStore(mongo_url, "elsewhere", create_indexes=False)
    with elsewhere.subscribe(["tasks:default"]) as subscription:
        store.save_task(a_task("t"))
        subscription.wake()
        assert subscription.wait(SECONDS) == frozenset()
    elsewhere.close()


def test_with_a_nats_server_all_processes_hear(empty_mongo_url: str, nats_url: str) -> None:
    """Each store has a connection of its own, as if it were in a process of its own."""
    store = open_store(empty_mongo_url, doorbell=nats_url)
    other = open_store(empty_mongo_url, doorbell=nats_url)
    assert isinstance(store, MongoStore)
    assert isinstance(other, MongoStore)
    with other.subscribe(["tasks:default"]) as subscription:
        assert other.notifier.crosses_processes
        assert other.notifier.connected(SECONDS)
        subscription.wait(SECONDS)  # a wire that is whole again notifies everyone
        store.save_task(a_task("t"))
        assert subscription.wait(SECONDS) == {"tasks:default"}
    store.close()
    other.close()


def test_a_closed_store_ends_the_waits_on_it(store: MongoStore) -> None:
    subscription = store.subscribe(["tasks:default"])
    store.close()
    assert subscription.wait(SECONDS) == frozenset()
    assert subscription.closed


def test_a_doorbell_of_no_known_kind_is_named_without_its_password(store: MongoStore) -> None:
    store.doorbell = "http://user:secret@host"
    with pytest.raises(InputError, match="nats://") as refused:
        store.subscribe(["runs"])
    assert "secret" not in str(refused.value)


def test_nothing_is_known_of_the_life_of_others(store: MongoStore, empty_mongo_url: str) -> None:
    other = MongoStore(empty_mongo_url)
    assert store.life(store.owner_id) is Life.ALIVE
    assert store.life(other.owner_id) is Life.UNKNOWN
    assert "this one" in store.describe(store.owner_id)
    assert "this one" not in store.describe(other.owner_id)
    other.close()
