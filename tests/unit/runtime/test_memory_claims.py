"""Claims in the in-memory store: atomic, in order, one running task per step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from afl.kernel.errors import StoreConflict
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import WorkflowId

RUN = WorkflowId("run")


def make_task(uuid: str, name: str = "ns.F", step_id: str | None = None, **fields: Any) -> TaskDefinition:
    return TaskDefinition(
        uuid, name, "runner", RUN, "flow", f"step-{uuid}" if step_id is None else step_id, **fields
    )


def save(store: MemoryStore, *tasks: TaskDefinition) -> None:
    for task in tasks:
        store.save_task(task)


def claimed(store: MemoryStore, *names: str, task_list: str = "default") -> str | None:
    task = store.claim_task(list(names), task_list)
    return task.uuid if task is not None else None


def test_a_claim_makes_one_pending_task_running(store: MemoryStore) -> None:
    save(store, make_task("1"))
    task = store.claim_task(["ns.F"])
    assert task is not None
    assert (task.uuid, task.state) == ("1", TaskState.RUNNING)
    stored = store.get_task("1")
    assert stored is not None
    assert stored.state == TaskState.RUNNING
    assert stored.updated > 0


def test_nothing_to_claim_is_none(store: MemoryStore) -> None:
    assert claimed(store, "ns.F") is None
    save(store, make_task("1"))
    assert claimed(store) is None
    assert claimed(store, "ns.G") is None


def test_a_task_is_claimed_once(store: MemoryStore) -> None:
    save(store, make_task("1"))
    assert [claimed(store, "ns.F"), claimed(store, "ns.F")] == ["1", None]


@pytest.mark.parametrize("state", ["running", "completed", "failed", "ignored", "canceled"])
def test_only_pending_tasks_are_claimed(store: MemoryStore, state: str) -> None:
    save(store, make_task("1", state=state))
    assert claimed(store, "ns.F") is None


def test_claims_follow_creation_order_within_a_priority(store: MemoryStore) -> None:
    save(store, *(make_task(str(i)) for i in (3, 1, 2)), make_task("urgent", priority=5))
    assert [claimed(store, "ns.F") for _ in range(5)] == ["urgent", "3", "1", "2", None]


def test_claims_are_by_list(store: MemoryStore) -> None:
    save(store, make_task("1", task_list_name="special"))
    assert claimed(store, "ns.F") is None
    assert [task.uuid for task in store.get_pending_tasks("special")] == ["1"]
    assert claimed(store, "ns.F", task_list="special") == "1"
    assert store.get_pending_tasks("special") == []


@pytest.mark.parametrize(
    ("handler", "served"),
    [("ns.F", ["1"]), ("F", ["1", "2", "3"]), ("other.F", ["2"]), ("G", []), ("s.F", [])],
)
def test_a_short_name_serves_every_namespace_a_full_one_its_own(
    store: MemoryStore, handler: str, served: list[str]
) -> None:
    save(store, make_task("1", "ns.F"), make_task("2", "other.F"), make_task("3", "F"))
    found = [claimed(store, handler) for _ in range(4)]
    assert [uuid for uuid in found if uuid] == served


def test_one_running_task_per_step(store: MemoryStore) -> None:
    save(store, make_task("1", step_id="s"), make_task("2", step_id="s"), make_task("3", step_id="other"))
    assert [claimed(store, "ns.F") for _ in range(3)] == ["1", "3", None]
    save(store, make_task("1", step_id="s", state="completed"))
    assert claimed(store, "ns.F") == "2"


def test_a_second_running_task_of_a_step_is_refused(store: MemoryStore) -> None:
    save(store, make_task("1", step_id="s", state="running"))
    with pytest.raises(StoreConflict):
        save(store, make_task("2", step_id="s", state="running"))
    assert store.get_task("2") is None


def test_tasks_without_a_step_do_not_exclude_each_other(store: MemoryStore) -> None:
    save(store, make_task("1", "afl:execute", step_id=""), make_task("2", "afl:execute", step_id=""))
    assert [claimed(store, "afl:execute") for _ in range(2)] == ["1", "2"]


def test_concurrent_claims_never_meet(store: MemoryStore) -> None:
    save(store, *(make_task(str(i)) for i in range(40)))
    start = Barrier(8)

    def drain(_: int) -> list[str]:
        start.wait()
        mine = []
        while (uuid := claimed(store, "ns.F")) is not None:
            mine.append(uuid)
        return mine

    with ThreadPoolExecutor(8) as pool:
        taken = [uuid for mine in pool.map(drain, range(8)) for uuid in mine]
    assert sorted(taken, key=int) == [str(i) for i in range(40)]
