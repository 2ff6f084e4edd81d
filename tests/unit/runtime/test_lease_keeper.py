"""The lease keeper: renews while somebody is inside, tells what is still held, and survives a store that fails."""

from __future__ import annotations

import threading

import pytest
from support.agents import LONG, SECONDS, Recorder, begin, only_task
from support.threads import newcomers

from afl.kernel.errors import StoreUnavailable
from afl.runtime.entities import TaskDefinition
from afl.runtime.memory_store import MemoryStore
from afl.runtime.worker.lease_keeper import Holding, LeaseKeeper


def claim(store: MemoryStore) -> TaskDefinition:
    run = begin(store)
    task = store.claim_task(["Double"], lease_ms=1000, lock_ms=1000)
    assert task is not None
    assert task.workflow_id == run
    return task


def test_it_renews_leases_and_locks_while_somebody_is_inside(store: MemoryStore) -> None:
    task = claim(store)
    store.lease_ms = 30
    recorder = Recorder(store)
    keeper = LeaseKeeper(recorder.api, LONG)
    with keeper:
        recorder.until(lambda r: r.count("renew") >= 2)
    keeper.close()
    renewed = only_task(store, task.workflow_id)
    assert renewed.lease_until >= task.lease_until
    assert renewed.lock_until > task.lock_until + 60_000
    assert {thread for name, thread in recorder.calls if name == "renew"} == {"afl-lease-keeper"}


def test_with_nobody_inside_it_sleeps(store: MemoryStore) -> None:
    store.lease_ms = 3
    recorder, started = Recorder(store), newcomers("afl-lease-keeper")
    keeper = LeaseKeeper(recorder.api)
    idle = [keeper.idle]
    with keeper, keeper:
        idle.append(keeper.idle)
        recorder.until(lambda r: r.count("renew") >= 1)
        assert started() == ["afl-lease-keeper"]
    assert [*idle, keeper.idle] == [True, False, True]
    keeper.close()
    renewed = recorder.count("renew")
    assert started() == []
    assert recorder.count("renew") == renewed


def test_without_anybody_there_is_no_thread(store: MemoryStore) -> None:
    started = newcomers()
    keeper = LeaseKeeper(store)
    assert started() == []
    keeper.close()


def test_wanting_twice_is_wanting_once(store: MemoryStore) -> None:
    keeper = LeaseKeeper(store)
    keeper.want(False)
    keeper.want(True)
    keeper.want(True)
    inside = keeper.idle
    keeper.want(False)
    assert (inside, keeper.idle) == (False, True)
    keeper.close()


def test_what_is_still_held_is_told(store: MemoryStore) -> None:
    task = claim(store)
    told: list[list[tuple[str, int]]] = []
    keeper = LeaseKeeper(store, held=told.append)
    keeper.renew_now()
    store.release_tasks(store.owner_id, died=False)
    keeper.renew_now()
    assert told == [[(task.uuid, task.epoch)], []]


def test_only_what_is_in_hand_is_renewed_and_what_of_it_is_lost_is_told(store: MemoryStore) -> None:
    mine, forgotten = claim(store), claim(store)
    lost: list[set[tuple[str, int]]] = []
    in_hand = Holding(frozenset({(mine.uuid, mine.epoch), ("gone", 1)}), frozenset())
    store.lease_ms = LONG
    LeaseKeeper(store, holding=lambda: in_hand, lost=lost.append).renew_now()
    assert lost == [{("gone", 1)}]
    assert only_task(store, mine.workflow_id).lease_until > mine.lease_until
    assert only_task(store, forgotten.workflow_id).lease_until == forgotten.lease_until


def test_a_renewal_that_fails_is_tried_again(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    store.lease_ms = 3
    told = threading.Event()
    recorder = Recorder(store)
    recorder.fail("renew", StoreUnavailable("away"), StoreUnavailable("still away"))
    keeper = LeaseKeeper(recorder.api, held=lambda held: told.set())
    with keeper:
        assert told.wait(SECONDS)
    keeper.close()
    assert caplog.text.count("leases could not be renewed, trying again") == 2


def test_a_shorter_interval_counts(store: MemoryStore) -> None:
    store.lease_ms = LONG
    recorder = Recorder(store)
    keeper = LeaseKeeper(recorder.api, LONG, every_ms=1)
    with keeper:
        recorder.until(lambda r: r.count("renew") >= 3)
    keeper.close()
    assert recorder.count("renew") >= 3
