"""How much of what a store holds, as every store counts it."""

from __future__ import annotations

from store_records import LONG, a_run, a_task

from afl.runtime.entities import RunnerState, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import TaskCount


def test_an_empty_store_has_nothing(store: PersistenceAPI) -> None:
    assert store.count_tasks() == [] and sum(store.count_runs().values()) == 0


def test_open_tasks_are_counted_by_what_they_are(store: PersistenceAPI) -> None:
    store.save_task(a_task("one", "ns.F", created=200))
    store.save_task(a_task("two", "ns.F", created=100))
    store.save_task(a_task("other", "ns.G", created=50, task_list_name="slow"))
    store.save_task(a_task("held", "ns.F", created=10, hold=TaskHold.PAUSED))
    store.save_task(a_task("asked", "ns.H", created=5, via="human:finance", hold=TaskHold.ELSEWHERE))
    store.save_task(a_task("done", "ns.F", created=1, state=TaskState.COMPLETED))
    store.save_task(a_task("later", "ns.I", created=3, not_before=store.now() + LONG))
    store.save_task(a_task("due", "ns.I", created=4, not_before=store.now()))
    assert store.claim_task(["ns.G"], "slow", owner="worker", lease_ms=LONG) is not None
    assert sorted(store.count_tasks(), key=lambda each: (each.name, each.hold, each.delayed)) == [
        TaskCount("default", "ns.F", "pending", "", "", 2, 100),
        TaskCount("default", "ns.F", "pending", "paused", "", 1, 10),
        TaskCount("slow", "ns.G", "running", "", "", 1, 50),
        TaskCount("default", "ns.H", "pending", "elsewhere", "human:finance", 1, 5),
        TaskCount("default", "ns.I", "pending", "", "", 1, 4),
        TaskCount("default", "ns.I", "pending", "", "", 1, 3, delayed=True),
    ]


def test_runs_are_counted_by_state(store: PersistenceAPI) -> None:
    store.insert_run(a_run("one", state=RunnerState.CREATED))
    store.insert_run(a_run("two", state=RunnerState.CREATED))
    store.insert_run(a_run("three", state=RunnerState.CREATED))
    store.cancel_run("three", "no more")  # type: ignore[arg-type]
    found = {state: count for state, count in store.count_runs().items() if count}
    assert found == {"created": 2, "canceled": 1}
