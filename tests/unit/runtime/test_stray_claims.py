"""Claims in our name that nobody has: given back when they are sure to be nobody's, and not before."""

from __future__ import annotations

import threading

import pytest
from support.agents import LONG, SECONDS, begin, only_task

from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.held_claims import Holding, claiming, claiming_since, in_hand
from afl.runtime.recovery import stray_claims
from afl.runtime.recovery.stray_claims import StrayClaims
from afl.runtime.worker.lease_keeper import LeaseKeeper


@pytest.fixture(autouse=True)
def _no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stray_claims, "_APART_SECONDS", 0.0)


def claim(store: MemoryStore) -> TaskDefinition:
    begin(store)
    task = store.claim_task(["Double"], lease_ms=LONG)
    assert task is not None
    return task


def strays_of(store: MemoryStore, *, suspicious: bool = True) -> StrayClaims:
    strays = StrayClaims(store, "default", lambda name: name.endswith("Double"))
    if suspicious:
        strays.suspect()
    return strays


def state(store: MemoryStore, task: TaskDefinition) -> str:
    return only_task(store, task.workflow_id).state


def test_what_is_found_twice_is_given_back_and_counts_as_no_death(store: MemoryStore) -> None:
    task, strays = claim(store), strays_of(store)
    strays.give_back()
    assert state(store, task) == TaskState.RUNNING
    strays.give_back()
    given = only_task(store, task.workflow_id)
    assert (given.state, given.deaths, given.deliveries) == (TaskState.PENDING, 0, 0)


def test_without_a_suspicion_nobody_looks(store: MemoryStore) -> None:
    task, strays = claim(store), strays_of(store, suspicious=False)
    strays.give_back()
    strays.give_back()
    assert state(store, task) == TaskState.RUNNING


@pytest.mark.parametrize("whose", ["another owner", "another list", "another facet", "in hand"])
def test_what_is_not_ours_or_in_hand_stays(store: MemoryStore, whose: str) -> None:
    task, keeper = claim(store), None
    strays = StrayClaims(
        store, "other" if whose == "another list" else "default", lambda name: whose != "another facet"
    )
    if whose == "another owner":
        task.owner = "somebody"
        store.save_task(task)
    if whose == "in hand":
        keeper = LeaseKeeper(store, holding=lambda: Holding(frozenset({(task.uuid, task.epoch)})))
        assert (task.uuid, task.epoch) in in_hand().tasks
    strays.suspect()
    for _ in range(3):
        strays.give_back()
    assert state(store, task) == TaskState.RUNNING
    del keeper


def test_a_reply_that_is_only_late_is_waited_for(store: MemoryStore) -> None:
    claimed, answered = threading.Event(), threading.Event()
    tasks: list[TaskDefinition] = []

    def slow() -> None:
        with claiming(), claiming():  # one within another is one
            tasks.append(claim(store))
            claimed.set()
            assert answered.wait(SECONDS)

    thread = threading.Thread(target=slow)
    thread.start()
    assert claimed.wait(SECONDS)
    strays = strays_of(store)
    for _ in range(3):
        strays.give_back()
    assert state(store, tasks[0]) == TaskState.RUNNING
    assert claiming_since() < float("inf")
    answered.set()
    thread.join()
    assert claiming_since() == float("inf")
    strays.give_back()  # whoever it was has not taken it in hand
    assert state(store, tasks[0]) == TaskState.PENDING
