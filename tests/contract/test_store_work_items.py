"""The lock of a work item, `runner:task:<uuid>`, is part of the claim of that task.

A claim takes it, and it ends with the claim at the latest. Somebody who takes it without a claim keeps the claimers
away from the task.
"""

from __future__ import annotations

import pytest
from store_records import (
    LONG,
    RUN,
    a_task,
    a_waiting_step,
    an_outcome,
    claimed,
    eventually,
    stored_task,
    wait_outside,
)

from afl.runtime.entities import LockDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI

KEY = "runner:task:t"


def lock_of(store: PersistenceAPI, key: str = KEY) -> LockDefinition:
    lock = store.check_lock(key)
    assert lock is not None
    return lock


def test_a_claim_takes_the_lock_of_its_task(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s"))
    before = store.now()
    task = claimed(store, lock_ms=LONG)
    assert before + LONG <= task.lock_until <= store.now() + LONG
    lock = lock_of(store)
    assert (lock.key, lock.owner, lock.expires_at) == (KEY, "worker", task.lock_until)
    assert lock.meta is not None
    assert lock.meta.step_id == "s"


def test_a_claim_of_many_takes_all_their_locks(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2"):
        store.save_task(a_task(uuid))
    for task in store.claim_tasks(["F"], limit=2, owner="worker", lock_ms=LONG):
        assert lock_of(store, f"runner:task:{task.uuid}").expires_at == task.lock_until > 0


def test_a_claim_without_lock_leaves_it_free(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    assert claimed(store).lock_until == 0
    assert store.check_lock(KEY) is None
    assert not store.extend_lock(KEY, LONG, owner="worker")
    assert not store.release_lock(KEY, owner="worker")
    assert store.acquire_lock(KEY, LONG, owner="worker")
    assert lock_of(store).owner == "worker"


def test_nobody_else_takes_the_lock_of_a_claimed_task(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    task = claimed(store, lock_ms=LONG)
    assert not store.acquire_lock(KEY, LONG, owner="other")
    assert not store.acquire_lock(KEY, LONG)
    assert stored_task(store) == task
    assert store.acquire_lock("runner:task:another", LONG, owner="other")


def test_its_owner_takes_it_again_which_extends_it(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    task = claimed(store, lock_ms=LONG)
    assert store.acquire_lock(KEY, 3 * LONG, owner="worker")
    assert stored_task(store).lock_until >= task.lock_until + LONG
    assert lock_of(store).owner == "worker"


@pytest.mark.parametrize("owner", ["worker", ""])
def test_its_owner_and_operators_extend_and_release_it(store: PersistenceAPI, owner: str) -> None:
    store.save_task(a_task())
    task = claimed(store, lock_ms=LONG)
    assert store.extend_lock(KEY, 3 * LONG, owner=owner)
    assert stored_task(store).lock_until >= task.lock_until + LONG
    assert lock_of(store).expires_at == stored_task(store).lock_until
    assert store.release_lock(KEY, owner=owner)
    held = stored_task(store)
    assert (held.state, held.owner, held.epoch, held.lock_until) == (
        TaskState.RUNNING,
        "worker",
        task.epoch,
        0,
    )
    assert store.check_lock(KEY) is None
    assert not store.release_lock(KEY, owner=owner)


def test_others_do_not_extend_or_release_it(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    task = claimed(store, lock_ms=LONG)
    assert not store.extend_lock(KEY, 3 * LONG, owner="other")
    assert not store.release_lock(KEY, owner="other")
    assert stored_task(store) == task


def test_a_lock_that_ended_is_free_though_the_claim_lasts(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    claimed(store, lock_ms=1)
    eventually(lambda: store.check_lock(KEY) is None)
    assert not store.extend_lock(KEY, LONG, owner="worker")
    assert stored_task(store).state == TaskState.RUNNING
    assert store.acquire_lock(KEY, LONG, owner="other")


def test_renewing_extends_the_locks(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2"):
        store.save_task(a_task(uuid))
    locked, unlocked = claimed(store, lock_ms=LONG), claimed(store)
    store.renew("worker", LONG, 3 * LONG)
    assert stored_task(store, locked.uuid).lock_until >= locked.lock_until + LONG
    assert stored_task(store, unlocked.uuid).lock_until == 0


def test_the_lock_ends_with_the_work(store: PersistenceAPI) -> None:
    wait_outside(store)
    task = claimed(store, lock_ms=LONG)
    key = f"runner:task:{task.uuid}"
    assert lock_of(store, key).owner == "worker"
    assert store.finish([an_outcome(a_waiting_step(n=1), task, out=1)]) == [True]
    assert store.check_lock(key) is None
    assert store.acquire_lock(key, LONG, owner="other")


@pytest.mark.parametrize("how", ["released", "returned", "requeued"])
def test_the_lock_ends_when_the_task_is_given_back(store: PersistenceAPI, how: str) -> None:
    store.save_task(a_task())
    task = claimed(store, lock_ms=LONG)
    if how == "released":
        store.release_tasks("worker", died=False)
    elif how == "returned":
        store.return_tasks([task])
    else:
        store.requeue(task, 0, {"message": "no"})
    assert store.check_lock(KEY) is None
    assert eventually(lambda: store.claim_task(["F"], owner="other", lock_ms=LONG)).owner == "other"
    assert lock_of(store).owner == "other"


# -- locks without a claim ------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["other", ""])
@pytest.mark.parametrize("limit", [1, 5])
def test_a_task_that_somebody_locked_is_passed_over(store: PersistenceAPI, owner: str, limit: int) -> None:
    store.save_task(a_task(priority=9))
    store.save_task(a_task("free"))
    assert store.acquire_lock(KEY, LONG, owner=owner)
    assert [task.uuid for task in store.claim_tasks(["F"], limit=limit, owner="worker")] == ["free"]
    assert store.claim_tasks(["F"], limit=limit, owner="worker", workflow_id=RUN, any_event=True) == []
    assert stored_task(store).state == TaskState.PENDING
    assert store.release_lock(KEY)
    assert [task.uuid for task in store.claim_tasks(["F"], limit=limit, owner="worker")] == ["t"]


def test_many_locked_tasks_hide_nobody(store: PersistenceAPI) -> None:
    for number in range(120):
        store.save_task(a_task(f"t{number}", priority=9))
        assert store.acquire_lock(f"runner:task:t{number}", LONG, owner="other")
    store.save_task(a_task("free"))
    assert claimed(store).uuid == "free"
    assert store.claim_task(["F"], owner="worker") is None


def test_who_locked_a_task_may_claim_it(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    assert store.acquire_lock(KEY, LONG, owner="worker")
    assert store.claim_task(["F"], owner="other") is None
    assert claimed(store).uuid == "t"


def test_a_lock_that_ended_hides_nothing(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    assert store.acquire_lock(KEY, 1, owner="other")
    assert eventually(lambda: store.claim_task(["F"], owner="worker")).uuid == "t"
