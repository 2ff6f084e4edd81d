"""The workflow's policies on a task, as the store keeps and enforces them: timeout, retry, concurrency.

With a concurrency key, at most so many tasks of that key are open without a hold; the transaction that frees a place
gives it to the next, highest priority first, then oldest. It is a capability: a store without it refuses the task.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from store_records import (
    LONG,
    NOTHING,
    RUN,
    Everything,
    OpenStore,
    a_run,
    a_task,
    a_waiting_step,
    an_outcome,
    begin,
    begun,
    claimed,
    eventually,
    of_stores,
    stored_task,
    wait_outside,
)

from afl.kernel.errors import CapabilityError
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.stores.sql_store import tasks
from afl.runtime.types import WorkflowId

RETRY = {"attempts": 3, "backoff": 1000, "factor": 2.0, "max": 60000, "on": ["Timeout"]}


def test_the_policies_of_a_committed_task_are_stored(store: PersistenceAPI) -> None:
    plain, timed = a_task("plain"), a_task("timed", timeout_ms=5000)
    retried = a_task("retried", retry=RETRY, priority=3, task_list_name="other")
    store.commit(IterationChanges(created_tasks=[plain, timed, retried]))
    assert stored_task(store, "plain") == plain
    assert stored_task(store, "timed") == timed
    assert stored_task(store, "retried") == retried
    task = store.claim_task(["F"], "other")
    assert task is not None
    assert task.retry == RETRY


# -- timeout --------------------------------------------------------------------------------------------------


def test_time_runs_from_the_beginning_of_the_handler_by_the_clock_of_the_store(store: PersistenceAPI) -> None:
    store.save_task(a_task("timed", timeout_ms=LONG))
    store.save_task(a_task("plain"))
    tasks = store.claim_tasks(["F"], limit=2)
    assert [task.deadline for task in tasks] == [0, 0]
    before = store.now()
    store.start_tasks(tasks)
    assert before + LONG <= stored_task(store, "timed").deadline <= store.now() + LONG
    assert stored_task(store, "plain").deadline == 0


def test_every_delivery_has_a_deadline_of_its_own(store: PersistenceAPI) -> None:
    store.save_task(a_task(timeout_ms=LONG))
    first = begun(store)
    store.release_tasks("worker", died=True)
    assert stored_task(store).deadline == 0
    eventually(lambda: store.now() > first.deadline - LONG)
    assert begun(store).deadline > first.deadline


def test_a_task_born_claimed_has_its_deadline_too(store: PersistenceAPI) -> None:
    run = begin(store)
    task = a_task(state=TaskState.RUNNING, owner=store.owner_id, epoch=1, deliveries=1, timeout_ms=LONG)
    store.commit(IterationChanges(run=run, created_tasks=[task]))
    assert stored_task(store).deadline == 0
    before = store.now()
    store.start_tasks([task])
    assert before + LONG <= stored_task(store).deadline <= store.now() + LONG


# -- concurrency ----------------------------------------------------------------------------------------------


def keyed(uuid: str, key: str = "tenant-4", limit: int = 1, **fields: Any) -> TaskDefinition:
    return a_task(uuid, **{"concurrency_key": key, "concurrency_limit": limit, **fields})


def commit(store: PersistenceAPI, *tasks: TaskDefinition) -> None:
    store.commit(IterationChanges(created_tasks=list(tasks)))


def waiting(store: PersistenceAPI) -> list[str]:
    return [task.uuid for task in store.find_tasks(TaskFilter(hold=TaskHold.CONCURRENCY))]


def claim_all(store: PersistenceAPI) -> list[TaskDefinition]:
    return store.claim_tasks(["F"], limit=100, owner="worker", lease_ms=LONG)


def uuids(tasks: list[TaskDefinition]) -> list[str]:
    return [task.uuid for task in tasks]


def close(store: PersistenceAPI, *tasks: TaskDefinition, state: str = TaskState.COMPLETED) -> None:
    for task in tasks:
        task.state = state
    assert store.close_tasks(tasks) == [True] * len(tasks)


@of_stores(lacks="concurrency")
def test_a_store_without_concurrency_refuses_the_key(store: PersistenceAPI) -> None:
    with pytest.raises(CapabilityError, match="tenant-4"):
        store.commit(IterationChanges(run=a_run(), new_run=True, created_tasks=[keyed("t")]))
    assert Everything.of(store) == NOTHING


@of_stores(offers="concurrency")
def test_tasks_over_the_limit_wait(store: PersistenceAPI) -> None:
    commit(store, *(keyed(f"t{n}", limit=2) for n in range(5)))
    assert waiting(store) == ["t2", "t3", "t4"]
    commit(store, keyed("t5", limit=2), keyed("other", "tenant-5"), a_task("plain"))
    assert waiting(store) == ["t2", "t3", "t4", "t5"]
    assert sorted(uuids(claim_all(store))) == ["other", "plain", "t0", "t1"]
    assert claim_all(store) == []


@of_stores(offers="concurrency")
@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.FAILED])
def test_who_ends_gives_its_place_to_the_next(store: PersistenceAPI, state: str) -> None:
    commit(store, *(keyed(f"t{n}") for n in range(4)), keyed("urgent", priority=5))
    order = []
    while tasks := claim_all(store):
        assert len(tasks) == 1
        order += uuids(tasks)
        close(store, *tasks, state=state)
    assert order == ["urgent", "t0", "t1", "t2", "t3"]
    assert waiting(store) == []


@of_stores(offers="concurrency")
def test_the_end_of_a_steps_work_frees_its_place(store: PersistenceAPI) -> None:
    for name in ("s1", "s2", "s3"):
        wait_outside(store, name, concurrency_key="k", concurrency_limit=1)
    assert waiting(store) == ["task-s2", "task-s3"]
    task = claimed(store)
    stale = an_outcome(a_waiting_step("s1", n=1), stored_task(store, task.uuid), out=1)
    assert stale.task is not None
    stale.task.epoch += 1
    assert store.finish([stale]) == [False]
    assert waiting(store) == ["task-s2", "task-s3"]
    assert store.finish([an_outcome(a_waiting_step("s1", n=1), task, out=1)]) == [True]
    assert waiting(store) == ["task-s3"]


@of_stores(offers="concurrency")
def test_a_commit_that_closes_a_task_frees_its_place(store: PersistenceAPI) -> None:
    commit(store, keyed("t1"), keyed("t2"))
    task = claimed(store)
    task.state = TaskState.IGNORED
    store.commit(IterationChanges(updated_tasks=[task]))
    assert waiting(store) == []
    assert claimed(store).uuid == "t2"


@of_stores(offers="concurrency")
def test_a_canceled_run_frees_its_places_for_others(store: PersistenceAPI) -> None:
    begin(store)
    commit(store, keyed("mine-1"), keyed("mine-2"), keyed("theirs", workflow_id="run-2"))
    assert claimed(store).uuid == "mine-1"
    assert store.cancel_run(RUN, "enough")
    assert waiting(store) == []
    assert claimed(store).uuid == "theirs"


@of_stores(offers="concurrency")
def test_a_paused_run_leaves_the_places_it_does_not_use_to_others(store: PersistenceAPI) -> None:
    begin(store)
    begin(store, "run-2")
    commit(store, keyed("mine-1"), keyed("mine-2"), keyed("theirs", workflow_id="run-2"))
    assert store.pause_run(RUN, "later")
    theirs = claimed(store)
    assert theirs.uuid == "theirs"
    assert store.claim_task(["F"]) is None
    assert store.unpause_run(RUN)
    assert store.claim_task(["F"]) is None
    close(store, theirs)
    assert uuids(claim_all(store)) == ["mine-1"]


@of_stores(offers="concurrency")
def test_a_task_that_is_given_back_keeps_its_place(store: PersistenceAPI) -> None:
    commit(store, keyed("t1"), keyed("t2"))
    for died in (True, False):
        assert claimed(store).uuid == "t1"
        store.release_tasks("worker", died=died)
        assert waiting(store) == ["t2"]
    assert store.return_tasks([claimed(store)]) == 1
    assert uuids(claim_all(store)) == ["t1"]


@of_stores(offers="concurrency")
def test_a_task_that_is_tried_again_does_not_exceed_the_limit(store: PersistenceAPI) -> None:
    """Timed out, it gives up its place; to be tried again it needs one like all the others."""
    commit(store, keyed("t1", timeout_ms=1), keyed("t2"))
    begun(store)
    eventually(store.reclaim)
    eventually(lambda: [task.uuid for task in store.find_tasks(TaskFilter(hold=TaskHold.CONCURRENCY))] == [])
    second = claimed(store)
    assert second.uuid == "t2"
    assert store.requeue(stored_task(store, "t1"), 0, {"message": "time is up"})
    eventually(lambda: store.now() > stored_task(store, "t1").not_before)
    assert store.claim_task(["F"]) is None
    close(store, second)
    assert eventually(lambda: store.claim_task(["F"])).uuid == "t1"


@of_stores(offers="concurrency")
def test_a_poisoned_task_does_not_keep_its_place(store: PersistenceAPI) -> None:
    store.max_deliveries = 1
    commit(store, keyed("t1"), keyed("t2"))
    store.start_tasks([claimed(store, lease_ms=1)])
    eventually(store.reclaim)
    assert stored_task(store, "t1").hold == TaskHold.POISONED
    eventually(lambda: store.reclaim() == 0)  # a sweep frees the place, if the death itself did not
    assert claimed(store).uuid == "t2"


@of_stores(offers="concurrency")
def test_workers_at_once_never_exceed_the_limit(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    limit, count = 3, 40
    commit(stores[0], *(keyed(f"t{n}", limit=limit) for n in range(count)))
    together = threading.Barrier(len(stores))
    guard = threading.Lock()
    at_work: set[str] = set()
    most = [0]
    done: list[str] = []

    def work(store: PersistenceAPI) -> None:
        together.wait()
        while len(done) < count:
            for task in store.claim_tasks(["F"], limit=2, lease_ms=LONG):
                with guard:
                    at_work.add(task.uuid)
                    most[0] = max(most[0], len(at_work))
                with guard:  # before its place is free in the store
                    at_work.discard(task.uuid)
                    done.append(task.uuid)
                close(store, task)

    def watch() -> int:
        running = 0
        while len(done) < count:
            found = stores[0].find_tasks(TaskFilter(state=TaskState.RUNNING, limit=count))
            running = max(running, len(found))
        return running

    with ThreadPoolExecutor(len(stores) + 1) as pool:
        watcher = pool.submit(watch)
        for worker in [pool.submit(work, store) for store in stores]:
            worker.result()
    assert sorted(done) == sorted(f"t{n}" for n in range(count))
    assert watcher.result() <= limit
    assert most[0] <= limit
    states = [task.state for task in stores[0].get_tasks_by_workflow(WorkflowId(RUN))]
    assert states == [TaskState.COMPLETED] * count


# -- rate -----------------------------------------------------------------------------------------------------

MINUTE = 60_000


def rated(uuid: str, per_minute: int = 1, key: str = "rate:api", **fields: Any) -> TaskDefinition:
    return keyed(uuid, key, -per_minute, **fields)


def earliest(store: PersistenceAPI, uuid: str) -> int:
    """When a task may be claimed; it waits for nothing else."""
    task = stored_task(store, uuid)
    assert (task.state, task.hold) == (TaskState.PENDING, "")
    return task.not_before


@of_stores(offers="concurrency")
def test_the_tasks_of_a_rate_begin_one_interval_after_the_other(store: PersistenceAPI) -> None:
    commit(store, rated("t0"), rated("t1"), rated("t2"), rated("other", key="rate:mail"), a_task("plain"))
    before = store.now()
    assert sorted(uuids(claim_all(store))) == ["other", "plain", "t0"]
    assert before + MINUTE <= earliest(store, "t1") <= store.now() + MINUTE
    assert waiting(store) == ["t2"]
    assert claim_all(store) == []


@of_stores(offers="concurrency")
def test_the_interval_goes_on_when_nobody_waits(store: PersistenceAPI) -> None:
    commit(store, rated("t0", per_minute=2))
    before = store.now()
    (first,) = claim_all(store)
    close(store, first)
    commit(store, rated("t1", per_minute=2))
    assert before + MINUTE // 2 <= earliest(store, "t1") <= store.now() + MINUTE // 2
    assert claim_all(store) == []


@of_stores(offers="concurrency")
def test_there_is_no_burst_after_nobody_was_there(store: PersistenceAPI) -> None:
    commit(store, *(rated(f"t{n}", per_minute=60) for n in range(4)))
    eventually(lambda: store.now() > earliest(store, "t0") + 1000)  # an interval, and some
    before = store.now()
    assert uuids(claim_all(store)) == ["t0"]
    assert claim_all(store) == []
    assert earliest(store, "t1") >= before + 1000
    assert waiting(store) == ["t2", "t3"]


@of_stores(offers="concurrency")
def test_the_next_slot_is_when_workers_wake(store: PersistenceAPI) -> None:
    commit(store, rated("t0"), rated("t1"))
    assert len(claim_all(store)) == 1
    due = store.next_due("default")
    assert due is not None
    assert 0 < due <= MINUTE


@of_stores(offers="concurrency")
def test_a_retry_needs_a_slot(store: PersistenceAPI) -> None:
    commit(store, rated("t0"))
    task = claimed(store)
    before = stored_task(store, "t0").not_before
    assert store.requeue(task, 0, {"message": "boom"})
    assert earliest(store, "t0") >= before + MINUTE


@of_stores(offers="concurrency")
def test_a_retry_that_is_delayed_does_not_keep_the_slot_from_others(store: PersistenceAPI) -> None:
    commit(store, rated("t0", per_minute=6000, retry=RETRY))
    assert store.requeue(claimed(store), LONG, {"message": "boom"})
    commit(store, rated("t1", per_minute=6000))
    assert eventually(lambda: store.claim_task(["F"])).uuid == "t1"
    assert earliest(store, "t0") > store.now()


@of_stores(offers="concurrency")
@pytest.mark.parametrize("died", [True, False])
def test_a_delivery_after_a_death_needs_a_slot(store: PersistenceAPI, died: bool) -> None:
    commit(store, rated("t0"))
    claimed(store)
    before = store.now()
    assert store.release_tasks("worker", died=died) == 1
    assert earliest(store, "t0") >= before
    assert store.claim_task(["F"]) is None


@of_stores(offers="concurrency")
def test_a_task_that_is_given_back_waits_for_a_slot(store: PersistenceAPI) -> None:
    commit(store, rated("t0"))
    assert store.return_tasks([claimed(store)]) == 1
    assert store.claim_task(["F"]) is None


@of_stores(offers="concurrency")
def test_the_slot_of_a_canceled_run_goes_to_another(store: PersistenceAPI) -> None:
    begin(store)
    commit(store, rated("mine", per_minute=6000), rated("theirs", per_minute=6000, workflow_id="run-2"))
    assert store.cancel_run(RUN, "enough")
    assert eventually(lambda: store.claim_task(["F"])).uuid == "theirs"


@of_stores(offers="concurrency")
def test_a_paused_run_waits_for_a_slot_again(store: PersistenceAPI) -> None:
    begin(store)
    begin(store, "run-2")
    commit(store, rated("mine", per_minute=6000), rated("theirs", per_minute=6000, workflow_id="run-2"))
    assert store.pause_run(RUN, "later")
    assert eventually(lambda: store.claim_task(["F"])).uuid == "theirs"
    assert store.claim_task(["F"]) is None
    assert store.unpause_run(RUN)
    assert eventually(lambda: store.claim_task(["F"])).uuid == "mine"


@of_stores(offers="concurrency")
def test_a_task_that_a_sweep_has_made_gets_a_slot(store: PersistenceAPI) -> None:
    store.save_task(rated("t0", hold=TaskHold.CONCURRENCY))
    assert store.claim_task(["F"]) is None
    store.reclaim()
    assert claimed(store).uuid == "t0"


def passed(monkeypatch: pytest.MonkeyPatch, store: PersistenceAPI) -> None:
    """Nobody has started the task whose turn it is for so long that others have theirs."""
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "RATE_PATIENCE_MS", -2 * MINUTE)
        before = store.now()
        eventually(lambda: store.now() > before)  # no two are passed over at one time
        store.reclaim()


@of_stores(offers="concurrency")
def test_a_task_that_nobody_starts_does_not_stop_those_of_other_facets(
    store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(store, rated("lonely", per_minute=6000, name="G"), rated("next", per_minute=6000, name="G"))
    commit(store, *(rated(f"t{n}", per_minute=6000) for n in range(2)))
    store.reclaim()
    assert waiting(store) == ["next", "t0", "t1"]
    for number in range(2):
        passed(monkeypatch, store)
        assert eventually(lambda: store.claim_task(["F"])).uuid == f"t{number}"
    assert earliest(store, "lonely") <= store.now()
    assert waiting(store) == ["next"]
    assert eventually(lambda: store.claim_task(["G"])).uuid == "lonely"


@of_stores(offers="concurrency")
def test_tasks_of_one_facet_that_nobody_starts_have_their_turns_one_after_another(
    store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(
        store, rated("t0", per_minute=6000, priority=1), *(rated(f"t{n}", per_minute=6000) for n in (1, 2))
    )
    turns = []
    for _ in range(6):
        (turn,) = {"t0", "t1", "t2"} - set(waiting(store))
        turns.append(turn)
        passed(monkeypatch, store)
    assert turns == ["t0", "t1", "t2"] * 2
    assert stored_task(store, "t0").lease_until == 0


@of_stores(offers="concurrency")
def test_workers_at_once_never_exceed_the_rate(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    interval, count = 20, 12
    commit(stores[0], *(rated(f"t{n}", per_minute=MINUTE // interval) for n in range(count)))
    together = threading.Barrier(len(stores))
    begun_at: dict[str, tuple[int, int]] = {}

    def work(store: PersistenceAPI) -> None:
        together.wait()
        while len(begun_at) < count:
            before = store.now()
            for task in store.claim_tasks(["F"], limit=5, lease_ms=LONG):
                begun_at[task.uuid] = (before, task.not_before)

    with ThreadPoolExecutor(len(stores)) as pool:
        for worker in [pool.submit(work, store) for store in stores]:
            worker.result()
    slots = sorted(not_before for _, not_before in begun_at.values())
    assert min(after - before for before, after in itertools.pairwise(slots)) >= interval
    # nobody began before the interval after the claim before it was over
    ordered = sorted(begun_at.values(), key=lambda pair: pair[1])
    assert all(after[1] >= before[0] + interval for before, after in itertools.pairwise(ordered))
