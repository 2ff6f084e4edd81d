"""Tasks as records, and the leases of those that are held."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import LONG, RUN, a_task, eventually, wait_outside

from afl.kernel.errors import PayloadError, StoreConflict
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.states import EventState
from afl.runtime.types import EventId, StepId, WorkflowId

SHUFFLED = ["t3", "t9", "t1", "t7", "t2", "t8"]


def uuids(tasks: list[TaskDefinition]) -> list[str]:
    return [task.uuid for task in tasks]


def the_task(store: PersistenceAPI, uuid: str) -> TaskDefinition:
    task = store.get_task(uuid)
    assert task is not None
    return task


def event_state(store: PersistenceAPI, task: TaskDefinition) -> str:
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    return event.state


@pytest.mark.parametrize(
    "data",
    [None, {}, {"n": None, "list": [1, {"ü": "\x00"}]}, {"": 1, "a.b": {"$x": 2}}],
    ids=["none", "empty", "nested", "odd keys"],
)
def test_every_field_of_a_task_comes_back(store: PersistenceAPI, data: dict[str, Any] | None) -> None:
    task = TaskDefinition(
        uuid="t",
        name="ns.Täsk",
        runner_id="runner",
        workflow_id=RUN,
        flow_id="flow",
        step_id="step",
        state=TaskState.FAILED,
        created=1,
        updated=2,
        error={"message": "no\x00", "type": "X", "a.b": [1]},
        task_list_name="list",
        data_type="type",
        data=data,
        priority=-3,
        owner="worker",
        epoch=4,
        lease_until=5,
        started=8,
        deliveries=6,
        deaths=7,
        result={"out": [1, None], "a.b": "ü"},
        timeout_ms=9,
        retry={"attempts": 3, "backoff": 10, "factor": 2.5, "max": 100, "on": ["ns.Err", "$x"]},
        concurrency_key="tenant-4",
        concurrency_limit=10,
        hold=TaskHold.TIMEOUT,
        not_before=11,
        deadline=12,
        failures=13,
        lock_until=14,
        last_owner="before",
    )
    store.save_task(task)
    assert store.get_task("t") == task
    assert store.get_task_by_step(StepId("step")) == task


@pytest.mark.parametrize(
    "policy",
    [
        {"timeout_ms": 9},
        {"retry": {"attempts": 3}},
        {"concurrency_key": "k", "concurrency_limit": 2},
        {"hold": TaskHold.PAUSED},
        {"not_before": 11, "deadline": 12, "failures": 13, "lock_until": 14},
        {"last_owner": "before"},
        {"via": "human:finance", "bridge": {"asked": []}, "patience_ms": 5},
    ],
    ids=lambda policy: ",".join(policy),
)
def test_what_only_some_tasks_have_comes_and_goes(store: PersistenceAPI, policy: dict[str, Any]) -> None:
    for task in (a_task(**policy), a_task(), a_task(**policy)):
        store.save_task(task)
        assert store.get_task("t") == task


def test_a_task_that_is_not_there(store: PersistenceAPI) -> None:
    assert store.get_task("missing") is None
    assert store.get_task_by_step(StepId("missing")) is None
    assert store.get_pending_tasks("missing") == []
    assert store.get_tasks_by_workflow(WorkflowId("missing")) == []
    assert store.get_all_tasks() == []


def test_saving_again_replaces_the_task_and_keeps_its_place(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2"):
        store.save_task(a_task(uuid))
    new = a_task("t1", "ns.G", task_list_name="default", data={"x": 1}, error={"message": "m"})
    store.save_task(new)
    assert store.get_task("t1") == new
    assert uuids(store.get_pending_tasks("default")) == ["t1", "t2"]


def test_copies_go_in_and_copies_come_out(store: PersistenceAPI) -> None:
    task = a_task(data={"list": [1]})
    store.save_task(task)
    assert task.data is not None
    task.data["list"].append(2)
    first = the_task(store, "t")
    assert first.data is not None
    first.data["list"].append(3)
    first.state = TaskState.FAILED
    assert store.get_task("t") == a_task(data={"list": [1]})


def test_data_that_is_no_plain_data_is_refused(store: PersistenceAPI) -> None:
    with pytest.raises(PayloadError):
        store.save_task(a_task(data={"x": object()}))
    assert store.get_all_tasks() == []


def test_lists_come_in_creation_order_and_all_newest_first(store: PersistenceAPI) -> None:
    for uuid in SHUFFLED:
        store.save_task(a_task(uuid, step_id="step", created=5))
    store.save_task(a_task("other", workflow_id="run-2"))
    assert uuids(store.get_tasks_by_workflow(RUN)) == SHUFFLED
    assert uuids(store.get_all_tasks()) == ["other", *reversed(SHUFFLED)]
    assert uuids(store.get_all_tasks(limit=2)) == ["other", SHUFFLED[-1]]
    newest = store.get_task_by_step(StepId("step"))
    assert newest is not None
    assert newest.uuid == SHUFFLED[-1]


def test_pending_tasks_come_in_the_order_in_which_they_would_be_claimed(store: PersistenceAPI) -> None:
    for number, uuid in enumerate(SHUFFLED):
        store.save_task(a_task(uuid, priority=number % 2))
    store.save_task(a_task("elsewhere", task_list_name="other"))
    store.save_task(a_task("done", state=TaskState.COMPLETED))
    assert uuids(store.get_pending_tasks("default")) == [*SHUFFLED[1::2], *SHUFFLED[::2]]


def test_one_running_task_per_step_is_a_rule_of_the_schema(store: PersistenceAPI) -> None:
    store.save_task(a_task("t1", step_id="step", state=TaskState.RUNNING))
    with pytest.raises(StoreConflict):
        store.save_task(a_task("t2", step_id="step", state=TaskState.RUNNING))
    store.save_task(a_task("t3", step_id="other", state=TaskState.RUNNING))
    assert sorted(uuids(store.get_all_tasks())) == ["t1", "t3"]


def test_tasks_of_no_step_run_side_by_side(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2"):
        store.save_task(a_task(uuid, "afl:execute", state=TaskState.RUNNING))
    assert len(store.get_all_tasks()) == 2


def test_what_belongs_to_no_run_and_no_step_is_not_found_by_them(store: PersistenceAPI) -> None:
    store.save_task(a_task("t1", workflow_id="", step_id=""))
    store.save_task(a_task("t2", workflow_id=RUN, step_id="step"))
    assert store.get_tasks_by_workflow(WorkflowId("")) == []
    assert store.get_task_by_step(StepId("")) is None
    assert store.get_tasks_by_step(StepId("")) == []
    assert uuids(store.get_tasks_by_workflow(RUN)) == uuids(store.get_tasks_by_step(StepId("step"))) == ["t2"]
    assert uuids(store.get_all_tasks()) == ["t2", "t1"]


def test_an_event_is_processing_once_its_handler_begins(store: PersistenceAPI) -> None:
    task = wait_outside(store)
    claimed = store.claim_tasks(["F"], limit=1)
    assert event_state(store, task) == EventState.DISPATCHED
    store.start_tasks(claimed)
    assert event_state(store, task) == EventState.PROCESSING
    store.start_tasks([])


@pytest.mark.parametrize("died", [True, False])
def test_released_tasks_are_pending_again_under_a_new_epoch(store: PersistenceAPI, died: bool) -> None:
    """Task and event go back in one transaction; only a death counts as one."""
    task = wait_outside(store)
    other = wait_outside(store, "s2")
    store.claim_task(["F"], owner="worker", lease_ms=LONG)
    store.claim_task(["F"], owner="somebody", lease_ms=LONG)
    assert store.release_tasks("worker", died=died) == 1
    released = the_task(store, task.uuid)
    assert (released.state, released.owner, released.lease_until) == (TaskState.PENDING, "", 0)
    assert (released.epoch, released.deliveries, released.deaths) == (2, 1, int(died))
    assert (released.last_owner, released.hold) == ("worker", "")
    assert event_state(store, task) == EventState.CREATED
    assert the_task(store, other.uuid).owner == "somebody"
    assert store.release_tasks("worker", died=died) == 0


def test_a_task_is_reclaimed_when_its_lease_ends(store: PersistenceAPI) -> None:
    task = wait_outside(store)
    lasting = wait_outside(store, "s2")
    store.claim_task(["F"], owner="worker", lease_ms=1)
    store.claim_task(["F"], owner="worker", lease_ms=LONG)
    assert eventually(store.reclaim) == 1
    freed = the_task(store, task.uuid)
    assert (freed.state, freed.owner, freed.epoch, freed.expiries) == (TaskState.PENDING, "", 2, 1)
    assert freed.last_owner == "worker"
    assert event_state(store, task) == EventState.CREATED
    assert the_task(store, lasting.uuid).state == TaskState.RUNNING
    assert store.reclaim() == 0


def test_a_claim_without_lease_does_not_end(store: PersistenceAPI) -> None:
    task = wait_outside(store)
    store.claim_task(["F"], owner="worker")
    assert store.reclaim() == 0
    held = the_task(store, task.uuid)
    assert (held.state, held.lease_until) == (TaskState.RUNNING, 0)


def test_tasks_are_found_by_all_that_is_asked_for(store: PersistenceAPI) -> None:
    store.save_task(a_task("t3", "a.F"))
    store.save_task(a_task("t1", "b.F", task_list_name="other"))
    store.save_task(a_task("t2", "a.F", state=TaskState.FAILED))
    store.save_task(a_task("t5", "a.G", hold=TaskHold.POISONED))
    store.save_task(a_task("t4", "a.F", hold=TaskHold.POISONED, task_list_name="other"))
    assert uuids(store.find_tasks()) == ["t3", "t1", "t2", "t5", "t4"]
    assert uuids(store.find_tasks(TaskFilter(limit=2))) == ["t3", "t1"]
    assert store.find_tasks(TaskFilter(limit=0)) == []
    assert uuids(store.find_tasks(TaskFilter(state=TaskState.PENDING))) == ["t3", "t1", "t5", "t4"]
    assert uuids(store.find_tasks(TaskFilter(name="a.F"))) == ["t3", "t2", "t4"]
    assert uuids(store.find_tasks(TaskFilter(task_list="other"))) == ["t1", "t4"]
    assert uuids(store.find_tasks(TaskFilter(hold=TaskHold.POISONED))) == ["t5", "t4"]
    assert uuids(store.find_tasks(TaskFilter(state=TaskState.PENDING, name="a.F", task_list="other"))) == [
        "t4"
    ]
    assert store.find_tasks(TaskFilter(name="a.F", hold=TaskHold.TIMEOUT)) == []
    store.save_task(a_task("u%6", "a.H", owner="worker", concurrency_key="tenant"))
    assert uuids(store.find_tasks(TaskFilter(name="F"))) == ["t3", "t1", "t2", "t4"]
    assert uuids(store.find_tasks(TaskFilter(owner="worker"))) == ["u%6"]
    assert uuids(store.find_tasks(TaskFilter(key="tenant"))) == ["u%6"]
    assert (
        uuids(store.find_tasks(TaskFilter(prefix="u")))
        == uuids(store.find_tasks(TaskFilter(prefix="u%6")))
        == ["u%6"]
    )
    assert store.find_tasks(TaskFilter(prefix="%")) == store.find_tasks(TaskFilter(prefix=".")) == []
    store.save_task(a_task("t7", "a.F", workflow_id="run", state=TaskState.FAILED))
    store.save_task(a_task("t6", "a.F", workflow_id="run"))
    assert uuids(store.find_tasks(TaskFilter(workflow_id="run"))) == ["t7", "t6"]
    assert uuids(store.find_tasks(TaskFilter(workflow_id="run", state=TaskState.PENDING))) == ["t6"]
    assert uuids(store.find_tasks(TaskFilter(workflow_id="run", limit=1))) == ["t7"]


def test_a_task_of_the_system_names_its_step_in_its_data(store: PersistenceAPI) -> None:
    store.save_task(a_task("own", "ns.F", step_id="s"))
    store.save_task(a_task("resume", "afl:resume", step_id="s"))
    found = store.get_task("resume")
    assert found is not None
    assert (found.step_id, found.workflow_id) == ("", RUN)
    assert found.data is not None
    assert (found.data["step_id"], found.data["workflow_id"]) == ("s", RUN)
    assert [task.uuid for task in store.claim_tasks(["afl:resume", "F"], limit=5)] == ["own", "resume"]
