"""Claims are atomic: no two callers receive the same task, and at most one task of a step is running.

A claim and the state of the task's event are one transaction. The owner, the epoch and the lease that a claim gives are
what every later write of the holder is checked against.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_records import LONG, RUN, OpenStore, a_task, eventually, wait_outside

from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.states import EventState
from afl.runtime.types import EventId

CLAIMERS, TASKS = 8, 300


def claimed_names(store: PersistenceAPI, names: list[str]) -> list[str]:
    return sorted(task.name for task in store.claim_tasks(names, limit=100))


def test_a_claim_takes_one_task_and_says_whose_it_is(store: PersistenceAPI) -> None:
    task = wait_outside(store)
    claimed = store.claim_task(["ns.F"], owner="worker", lease_ms=LONG)
    assert claimed is not None
    assert (claimed.uuid, claimed.state, claimed.owner) == (task.uuid, TaskState.RUNNING, "worker")
    assert (claimed.epoch, claimed.deliveries, claimed.deaths) == (1, 1, 0)
    assert (claimed.data, claimed.runner_id) == ({"n": 1}, "r")
    assert claimed.lease_until > 0
    assert store.get_task(task.uuid) == claimed
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert event.state == EventState.DISPATCHED
    assert store.claim_task(["ns.F"]) is None


def test_without_an_owner_this_process_claims(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    claimed = store.claim_task(["ns.F"])
    assert claimed is not None
    assert claimed.owner == store.owner_id
    assert claimed.lease_until == 0


def test_every_claim_raises_the_epoch(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    epochs = []
    for _ in range(3):
        claimed = store.claim_task(["ns.F"], owner="worker", lease_ms=LONG)
        assert claimed is not None
        epochs.append((claimed.epoch, claimed.deliveries))
        store.release_tasks("worker", died=False)
    assert epochs == [(1, 1), (3, 2), (5, 3)]


def test_only_pending_tasks_of_the_list_are_claimed(store: PersistenceAPI) -> None:
    store.save_task(a_task("elsewhere", task_list_name="other"))
    for state in (TaskState.RUNNING, TaskState.COMPLETED, TaskState.FAILED, TaskState.IGNORED):
        store.save_task(a_task(state, state=state))
    store.save_task(a_task("canceled", state=TaskState.CANCELED))
    assert store.claim_task(["ns.F", "F"]) is None
    claimed = store.claim_task(["ns.F"], "other")
    assert claimed is not None
    assert claimed.uuid == "elsewhere"


def test_claims_go_by_priority_then_by_creation(store: PersistenceAPI) -> None:
    priorities = [0, 5, -1, 5, 0, 9]
    for number, priority in enumerate(priorities):
        store.save_task(a_task(f"t{9 - number}", priority=priority, created=100 - number))
    expected = ["t4", "t8", "t6", "t9", "t5", "t7"]
    one_by_one = [store.claim_task(["ns.F"]) for _ in range(3)]
    together = store.claim_tasks(["ns.F"], limit=10)
    assert [task.uuid for task in one_by_one if task is not None] == expected[:3]
    assert [task.uuid for task in together] == expected[3:]


def test_tasks_of_one_commit_are_claimed_in_the_order_of_that_commit(store: PersistenceAPI) -> None:
    tasks = [a_task(f"t{(7 * number) % 20:02}") for number in range(20)]
    store.commit(IterationChanges(created_tasks=tasks))
    claimed = store.claim_tasks(["F"], limit=20)
    assert [task.uuid for task in claimed] == [task.uuid for task in tasks]


def test_a_dotless_name_serves_any_namespace_and_a_dotted_one_only_itself(store: PersistenceAPI) -> None:
    def fill() -> None:
        for name in ("F", "a.F", "a.b.F", "G", "a.G", "a.FF", "aF"):
            store.save_task(a_task(name, name))

    fill()
    assert claimed_names(store, ["F"]) == ["F", "a.F", "a.b.F"]
    fill()
    assert claimed_names(store, ["a.F"]) == ["a.F"]
    fill()
    assert claimed_names(store, ["b.F"]) == []
    assert claimed_names(store, ["a.G", "F"]) == ["F", "a.F", "a.G", "a.b.F"]


def test_system_tasks_are_claimed_by_their_names(store: PersistenceAPI) -> None:
    store.save_task(a_task("x", "afl:execute"))
    assert store.claim_task(["execute"]) is None
    claimed = store.claim_task(["afl:execute"])
    assert claimed is not None
    assert claimed.uuid == "x"


def test_no_name_or_no_room_claims_nothing(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    assert store.claim_task([]) is None
    assert store.claim_tasks(["F"], limit=0) == []
    assert len(store.claim_tasks(["F"], limit=5)) == 1


def test_claims_of_one_run_only(store: PersistenceAPI) -> None:
    store.save_task(a_task("t1", workflow_id="run-2"))
    store.save_task(a_task("t2"))
    assert [task.uuid for task in store.claim_tasks(["F"], limit=5, workflow_id=RUN)] == ["t2"]


def test_claims_of_one_run_are_of_whatever_list(store: PersistenceAPI) -> None:
    store.save_task(a_task("t1", task_list_name="other"))
    store.save_task(a_task("t2", workflow_id="run-2"))
    store.save_task(a_task("t3", priority=1))
    assert [task.uuid for task in store.claim_tasks(["F"], limit=5, workflow_id=RUN)] == ["t3", "t1"]


@pytest.mark.parametrize("workflow_id", [None, RUN])
def test_who_serves_any_event_takes_the_named_ones_first(
    store: PersistenceAPI, workflow_id: str | None
) -> None:
    """And never those of the runtime itself, unless they are named."""
    store.save_task(a_task("unknown", "ns.Unknown", step_id="s1", priority=9))
    store.save_task(a_task("system", "afl:execute", priority=9))
    store.save_task(a_task("resume", "afl:resume", step_id="s2", priority=9))
    store.save_task(a_task("loose", "ns.Loose", priority=9))
    store.save_task(a_task("older", "ns.Older", step_id="s3"))
    store.save_task(a_task("named", step_id="s4"))
    store.save_task(a_task("elsewhere", "ns.F", "run-2", step_id="s5", task_list_name="other"))
    store.save_task(a_task("urgent", step_id="s6", priority=1))

    def claim(names: list[str], limit: int) -> list[str]:
        tasks = store.claim_tasks(names, limit=limit, workflow_id=workflow_id, any_event=True)
        return [task.uuid for task in tasks]

    assert claim(["F"], 4) == ["urgent", "named", "unknown", "loose"]
    assert claim([], 0) == []
    assert claim([], 5) == ["older"]
    assert claim(["afl:execute"], 5) == ["system"]
    assert claim(["F"], 5) == []


def test_any_event_of_a_busy_step_waits_too(store: PersistenceAPI) -> None:
    store.save_task(a_task("t1", "ns.A", step_id="s"))
    store.save_task(a_task("t2", "ns.B", step_id="s", priority=9))
    assert [task.uuid for task in store.claim_tasks(["ns.B"], limit=5, any_event=True)] == ["t1"]
    assert store.claim_tasks(["ns.B"], limit=5, any_event=True) == []


def test_a_second_task_of_a_step_waits_for_the_first(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2", "t3"):
        store.save_task(a_task(uuid, step_id="step"))
    store.save_task(a_task("t4", step_id="other"))
    claimed = [store.claim_task(["F"], owner="worker") for _ in range(3)]
    assert [task.uuid if task else None for task in claimed] == ["t1", "t4", None]
    store.save_task(a_task("t1", step_id="step", state=TaskState.COMPLETED))
    following = store.claim_task(["F"])
    assert following is not None
    assert following.uuid == "t2"


def test_a_younger_task_of_a_step_does_not_overtake(store: PersistenceAPI) -> None:
    store.save_task(a_task("old", step_id="step"))
    store.save_task(a_task("young", step_id="step", priority=9))
    store.save_task(a_task("unserved", "ns.Other", step_id="step2"))
    store.save_task(a_task("behind", step_id="step2"))
    assert [task.uuid for task in store.claim_tasks(["F"], limit=5)] == ["old"]
    assert store.claim_task(["F"]) is None


def test_a_claim_of_many_takes_one_task_of_a_step(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2"):
        store.save_task(a_task(uuid, step_id="step"))
    store.save_task(a_task("t3", step_id="other"))
    assert [task.uuid for task in store.claim_tasks(["F"], limit=5)] == ["t1", "t3"]
    assert store.claim_tasks(["F"], limit=5) == []


def test_many_waiting_tasks_of_a_busy_step_hide_nobody(store: PersistenceAPI) -> None:
    store.commit(IterationChanges(created_tasks=[a_task(f"t{n}", step_id="step") for n in range(60)]))
    store.commit(IterationChanges(created_tasks=[a_task("free", step_id="other")]))
    claimed: list[TaskDefinition] = []
    while more := store.claim_tasks(["F"], limit=3):
        claimed += more
    assert [task.uuid for task in claimed] == ["t0", "free"]


def test_an_expired_claim_is_delivered_to_the_next(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    store.claim_task(["F"], owner="first", lease_ms=1)
    eventually(store.reclaim)
    again = store.claim_task(["F"], owner="second", lease_ms=LONG)
    assert again is not None
    assert (again.owner, again.epoch, again.deliveries, again.expiries) == ("second", 3, 2, 1)
    assert again.deaths == 0


@pytest.mark.parametrize("limit", [1, 7])
def test_claimers_at_once_receive_every_task_once(open_store: OpenStore, limit: int) -> None:
    """300 tasks, 8 claimers: 300 deliveries, none twice; and a claimer that sees work never comes back empty."""
    stores = [open_store() for _ in range(CLAIMERS)]
    stores[0].commit(IterationChanges(created_tasks=[a_task(f"t{n}", step_id=f"s{n}") for n in range(TASKS)]))
    together = threading.Barrier(CLAIMERS)

    def work(store: PersistenceAPI) -> list[TaskDefinition]:
        together.wait()
        received: list[TaskDefinition] = []
        while claimed := store.claim_tasks(["F"], limit=limit, lease_ms=LONG):
            received += claimed
        return received

    with ThreadPoolExecutor(CLAIMERS) as pool:
        received = [task for part in pool.map(work, stores) for task in part]
    assert len(received) == TASKS
    assert set(Counter(task.uuid for task in received).values()) == {1}
    assert {task.epoch for task in received} == {1}
    assert all(task.state == TaskState.RUNNING for task in stores[0].get_all_tasks(limit=TASKS))


def test_claimers_at_once_run_one_task_of_a_step(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    steps = 20
    stores[0].commit(
        IterationChanges(created_tasks=[a_task(f"t{n}", step_id=f"s{n % steps}") for n in range(3 * steps)])
    )
    together = threading.Barrier(len(stores))

    def work(store: PersistenceAPI) -> list[TaskDefinition]:
        together.wait()
        received: list[TaskDefinition] = []
        while claimed := store.claim_tasks(["F"], limit=5, lease_ms=LONG):
            received += claimed
        return received

    with ThreadPoolExecutor(len(stores)) as pool:
        received = [task for part in pool.map(work, stores) for task in part]
    assert sorted(task.step_id for task in received) == sorted(f"s{n}" for n in range(steps))
