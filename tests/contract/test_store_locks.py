"""Named locks: one holder at a time, until the store's clock says otherwise.

Taking is one atomic act. A caller without owner acts as an operator: it may release or extend what anyone holds,
but it cannot take what is held.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from store_records import LONG, OpenStore, eventually

from afl.kernel.clock import wall_ms
from afl.runtime.entities import LockMetaData
from afl.runtime.persistence import PersistenceAPI


def lasts(store: PersistenceAPI, key: str) -> int:
    """How long a lock is held, from when it was taken."""
    lock = store.check_lock(key)
    assert lock is not None
    return lock.expires_at - lock.acquired_at


def test_a_lock_is_held_until_it_is_released(store: PersistenceAPI) -> None:
    assert store.acquire_lock("k", LONG)
    assert not store.acquire_lock("k", LONG)
    assert store.acquire_lock("other", LONG)
    assert store.release_lock("k")
    assert not store.release_lock("k")
    assert store.check_lock("k") is None
    assert store.acquire_lock("k", LONG)


def test_a_lock_tells_who_holds_it_and_what_for(store: PersistenceAPI) -> None:
    meta = LockMetaData("töpic", "handler", "step", "id")
    before = wall_ms()
    assert store.acquire_lock("runner:task:1", LONG, meta, owner="worker")
    lock = store.check_lock("runner:task:1")
    assert lock is not None
    assert (lock.key, lock.owner, lock.meta) == ("runner:task:1", "worker", meta)
    assert LONG <= lock.expires_at - lock.acquired_at < 2 * LONG
    # People read these times, so they are in the epoch of the wall clock; all run on one machine here.
    assert abs(lock.acquired_at - before) < LONG
    assert store.acquire_lock("plain", LONG)
    plain = store.check_lock("plain")
    assert plain is not None
    assert (plain.owner, plain.meta) == ("", None)


def test_an_expired_lock_is_free(store: PersistenceAPI) -> None:
    store.acquire_lock("k", 1, owner="first")
    eventually(lambda: store.check_lock("k") is None)
    assert not store.extend_lock("k", LONG, owner="first")
    assert not store.release_lock("k", owner="first")
    assert store.acquire_lock("k", LONG, owner="second")
    lock = store.check_lock("k")
    assert lock is not None
    assert lock.owner == "second"


def test_its_owner_takes_a_lock_again(store: PersistenceAPI) -> None:
    assert store.acquire_lock("k", LONG, owner="worker")
    assert store.acquire_lock("k", 3 * LONG, owner="worker")
    assert lasts(store, "k") > LONG
    assert not store.acquire_lock("k", LONG, owner="other")
    assert not store.acquire_lock("k", LONG)


def test_only_the_owner_releases_and_extends(store: PersistenceAPI) -> None:
    store.acquire_lock("k", LONG, owner="worker")
    assert not store.release_lock("k", owner="other")
    assert not store.extend_lock("k", 3 * LONG, owner="other")
    assert lasts(store, "k") < 2 * LONG
    assert store.extend_lock("k", 3 * LONG, owner="worker")
    assert lasts(store, "k") >= 3 * LONG
    lock = store.check_lock("k")
    assert lock is not None
    assert lock.owner == "worker"
    assert store.release_lock("k", owner="worker")


def test_an_operator_extends_and_releases_any_lock(store: PersistenceAPI) -> None:
    store.acquire_lock("k", LONG, owner="worker")
    assert store.extend_lock("k", LONG)
    assert store.extend_lock("k", LONG)  # the same again is no failure
    assert store.release_lock("k")
    assert store.check_lock("k") is None


def test_extending_may_shorten(store: PersistenceAPI) -> None:
    store.acquire_lock("k", LONG)
    assert store.extend_lock("k", 1)
    eventually(lambda: store.check_lock("k") is None)
    assert store.acquire_lock("k", LONG)


def test_a_lock_that_is_not_there(store: PersistenceAPI) -> None:
    assert store.check_lock("missing") is None
    assert not store.release_lock("missing")
    assert not store.extend_lock("missing", LONG)
    assert store.check_lock("missing") is None


def test_of_many_at_once_one_gets_the_lock(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    together = threading.Barrier(len(stores))

    def take(store: PersistenceAPI, name: str) -> bool:
        together.wait()
        return store.acquire_lock("k", LONG, owner=name)

    names = [f"worker-{number}" for number in range(len(stores))]
    for _ in range(10):
        with ThreadPoolExecutor(len(stores)) as pool:
            answers = dict(zip(names, pool.map(take, stores, names), strict=True))
        holders = [name for name, got in answers.items() if got]
        lock = stores[0].check_lock("k")
        assert lock is not None
        assert holders == [lock.owner]
        assert stores[0].release_lock("k")
