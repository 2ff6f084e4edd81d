"""Tasks that wait though they are pending: held for a reason, put off until a time, or put back for another attempt.

A task that is given back is pending under a new epoch, so what its last holder says about it later has no effect.
"""

from __future__ import annotations

from typing import Any

import pytest
from store_records import (
    LONG,
    RUN,
    Everything,
    a_task,
    a_waiting_step,
    an_outcome,
    claimed,
    eventually,
    stored_task,
    wait_outside,
)

from afl.kernel.errors import PayloadError
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import EventState
from afl.runtime.types import EventId, WorkflowId

HOLDS = [TaskHold.CONCURRENCY, TaskHold.PAUSED, TaskHold.POISONED, TaskHold.TIMEOUT]
NO = {"message": "no", "type": "AgentError"}


def uuids(tasks: list[TaskDefinition]) -> list[str]:
    return [task.uuid for task in tasks]


def put_off(store: PersistenceAPI, uuid: str, delay_ms: int, **fields: Any) -> None:
    store.save_task(a_task(uuid, not_before=store.now() + delay_ms, **fields))


@pytest.mark.parametrize("hold", HOLDS)
def test_a_held_task_is_passed_over(store: PersistenceAPI, hold: str) -> None:
    store.save_task(a_task("held", hold=hold, priority=9, step_id="s1"))
    store.save_task(a_task("free", step_id="s2"))
    assert uuids(store.claim_tasks(["F"], limit=5, workflow_id=RUN, any_event=True)) == ["free"]
    assert store.claim_task(["ns.F"]) is None
    assert store.claim_tasks(["ns.F"], limit=5) == []
    held = stored_task(store, "held")
    assert (held.state, held.hold, held.epoch) == (TaskState.PENDING, hold, 0)


def test_a_task_without_hold_is_claimed_again(store: PersistenceAPI) -> None:
    store.save_task(a_task(hold=TaskHold.TIMEOUT))
    store.save_task(a_task(hold=""))
    assert claimed(store).uuid == "t"


def test_what_is_held_back_of_a_run(store: PersistenceAPI) -> None:
    store.save_task(a_task("free", step_id="s1"))
    store.save_task(a_task("limited", step_id="s2", concurrency_key="k", concurrency_limit=1))
    store.save_task(a_task("held", step_id="s3", hold=TaskHold.PAUSED))
    put_off(store, "late", LONG, step_id="s4")
    put_off(store, "was late", -1, step_id="s5")
    put_off(store, "over", LONG, step_id="s6", state=TaskState.COMPLETED)
    put_off(store, "of another", LONG, step_id="s7", workflow_id="another")
    assert uuids(store.get_held_back(RUN)) == ["limited", "held", "late", "was late"]
    assert store.get_held_back(WorkflowId("nobody's")) == []


# -- delays ---------------------------------------------------------------------------------------------------


def test_a_task_is_not_claimed_before_its_time(store: PersistenceAPI) -> None:
    put_off(store, "late", LONG, priority=9)
    store.save_task(a_task("now"))
    put_off(store, "past", -1)
    assert uuids(store.claim_tasks(["F"], limit=5, any_event=True)) == ["now", "past"]
    assert store.claim_task(["F"]) is None


def test_a_task_is_claimed_when_its_time_has_come(store: PersistenceAPI) -> None:
    put_off(store, "t", 20)
    task = eventually(lambda: store.claim_task(["F"]))
    assert task.uuid == "t"
    assert store.now() >= task.not_before


def test_the_next_due_task_is_told(store: PersistenceAPI) -> None:
    assert store.next_due() is None
    store.save_task(a_task("now"))
    assert store.next_due() is None
    put_off(store, "later", 3 * LONG)
    put_off(store, "soon", 2 * LONG)
    put_off(store, "elsewhere", LONG, task_list_name="other")
    due, elsewhere, anywhere = store.next_due("default"), store.next_due("other"), store.next_due()
    assert due is not None
    assert elsewhere is not None
    assert anywhere is not None
    assert LONG < due <= 2 * LONG
    assert 0 < elsewhere <= LONG
    assert 0 < anywhere <= LONG
    assert store.next_due("missing") is None
    put_off(store, "of-a-run", LONG // 2, workflow_id="run-2")
    of_a_run = store.next_due(workflow_id="run-2")
    assert of_a_run is not None
    assert 0 < of_a_run <= LONG // 2
    assert store.next_due("other", "run-2") is None
    assert store.next_due(workflow_id="missing") is None


def test_a_task_that_would_not_be_claimed_anyway_is_not_due(store: PersistenceAPI) -> None:
    put_off(store, "held", LONG, hold=TaskHold.PAUSED)
    put_off(store, "running", LONG, state=TaskState.RUNNING)
    put_off(store, "over", LONG, state=TaskState.CANCELED)
    assert store.next_due() is None
    assert store.next_due("default") is None


# -- another attempt ------------------------------------------------------------------------------------------


def test_a_requeued_task_waits_for_its_next_attempt(store: PersistenceAPI) -> None:
    wait_outside(store)
    task = claimed(store, lock_ms=LONG)
    store.start_tasks([task])
    assert store.requeue(task, LONG, NO)
    again = stored_task(store, task.uuid)
    assert (again.state, again.owner, again.hold, again.error) == (TaskState.PENDING, "", "", NO)
    assert (again.failures, again.deliveries, again.deaths) == (1, 1, 0)
    assert (again.lease_until, again.lock_until, again.started) == (0, 0, 0)
    assert again.last_owner == "worker"
    assert again.epoch > task.epoch
    assert LONG / 2 < again.not_before - store.now() <= LONG
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert event.state == EventState.CREATED
    assert store.claim_task(["F"]) is None
    assert store.next_due() is not None


@pytest.mark.parametrize("delay_ms", [0, 1])
def test_a_requeued_task_is_delivered_after_the_delay(store: PersistenceAPI, delay_ms: int) -> None:
    store.save_task(a_task())
    assert store.requeue(claimed(store), delay_ms, NO)
    task = eventually(lambda: store.claim_task(["F"], owner="other"))
    assert (task.owner, task.deliveries, task.failures, task.last_owner) == ("other", 2, 1, "worker")


def test_failures_are_counted(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    for number in range(1, 4):
        task = eventually(lambda: store.claim_task(["F"], owner="worker"))
        assert store.requeue(task, 0, {"message": f"no {number}"})
        again = stored_task(store)
        assert (again.failures, again.error) == (number, {"message": f"no {number}"})


def test_only_its_holder_requeues_a_running_task(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    stale = claimed(store, "old")
    store.release_tasks("old", died=True)
    fresh = claimed(store, "new")
    unowned = stored_task(store)
    unowned.owner = ""
    before = stored_task(store)
    assert not store.requeue(stale, 0, NO)
    assert not store.requeue(unowned, 0, NO)
    assert not store.requeue(a_task("missing"), 0, NO)
    assert stored_task(store) == before
    assert store.requeue(fresh, 0, NO)
    assert not store.requeue(fresh, 0, NO)


@pytest.mark.parametrize("hold", [TaskHold.TIMEOUT, TaskHold.POISONED])
def test_a_sweep_that_judged_a_held_task_lets_it_be_tried_again(store: PersistenceAPI, hold: str) -> None:
    store.save_task(a_task(hold=hold, epoch=4, last_owner="first", deaths=2))
    task = stored_task(store)
    assert store.requeue(task, 0, NO)
    again = stored_task(store)
    assert (again.hold, again.failures, again.last_owner, again.deaths) == ("", 1, "first", 2)
    assert not store.requeue(task, 0, NO)  # two sweeps may come to the same judgment
    assert eventually(lambda: store.claim_task(["F"])).uuid == "t"


def test_a_task_that_is_over_is_not_requeued(store: PersistenceAPI) -> None:
    store.save_task(a_task(state=TaskState.COMPLETED))
    assert not store.requeue(stored_task(store), 0, NO)
    assert stored_task(store).state == TaskState.COMPLETED


def test_an_error_that_is_no_plain_data_is_refused(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    task = claimed(store)
    with pytest.raises(PayloadError):
        store.requeue(task, 0, {"x": object()})
    assert stored_task(store) == task


def test_the_outcome_of_a_requeued_attempt_is_refused(store: PersistenceAPI) -> None:
    wait_outside(store)
    task = claimed(store)
    assert store.requeue(task, 0, NO)
    before = Everything.of(store)
    assert store.finish([an_outcome(a_waiting_step(n=1), task, out=1)]) == [False]
    assert Everything.of(store) == before


# -- claims given back, tasks of no step closed ---------------------------------------------------------------


def test_returned_claims_leave_no_trace(store: PersistenceAPI) -> None:
    store.save_task(a_task("t1", deliveries=3, deaths=1, failures=2, last_owner="before", timeout_ms=LONG))
    store.save_task(a_task("t2"))
    before = [stored_task(store, uuid) for uuid in ("t1", "t2")]
    tasks = store.claim_tasks(["F"], limit=2, owner="worker", lease_ms=LONG, lock_ms=LONG)
    store.start_tasks(tasks)
    assert store.return_tasks(tasks) == 2
    for old in before:
        task = stored_task(store, old.uuid)
        assert task.epoch >= old.epoch
        task.epoch, task.updated = old.epoch, old.updated
        assert task == old
    assert uuids(store.claim_tasks(["F"], limit=5)) == ["t1", "t2"]


def test_claims_given_back_after_the_work_began_were_delivered(store: PersistenceAPI) -> None:
    store.save_task(a_task())
    task = claimed(store)
    store.start_tasks([task])
    assert store.return_tasks([task], begun=True) == 1
    again = stored_task(store)
    assert (again.state, again.owner, again.started) == (TaskState.PENDING, "", 0)
    assert (again.deliveries, again.deaths, again.failures) == (1, 0, 0)
    assert claimed(store).deliveries == 2


def test_a_claim_that_was_given_back_is_no_claim(store: PersistenceAPI) -> None:
    wait_outside(store)
    stale = claimed(store)
    assert store.return_tasks([stale]) == 1
    again = claimed(store)
    before = Everything.of(store)
    assert store.return_tasks([stale]) == 0
    assert store.finish([an_outcome(a_waiting_step(n=1), stale, out=1)]) == [False]
    assert not store.renew_task(stale, LONG)
    assert Everything.of(store) == before
    assert store.finish([an_outcome(a_waiting_step(n=1), again, out=2)]) == [True]


def test_only_what_is_still_held_is_returned(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2", "t3"):
        store.save_task(a_task(uuid))
    lost, kept = claimed(store, "first"), claimed(store, "second")
    store.release_tasks("first", died=True)
    assert store.return_tasks([lost, kept, a_task("missing", owner="x")]) == 1
    assert store.return_tasks([]) == 0
    assert {stored_task(store, uuid).state for uuid in ("t1", "t2", "t3")} == {TaskState.PENDING}


def test_held_tasks_without_a_step_are_closed(store: PersistenceAPI) -> None:
    for uuid in ("t1", "t2", "t3"):
        store.save_task(a_task(uuid, "afl:execute"))
    done, lost, failed = (store.claim_task(["afl:execute"], owner=f"w{n}", lease_ms=LONG) for n in range(3))
    assert done is not None
    assert lost is not None
    assert failed is not None
    store.release_tasks("w1", died=False)
    done.state, done.result, done.updated = TaskState.COMPLETED, {"run": "r"}, 5
    lost.state = TaskState.COMPLETED
    failed.state, failed.error, failed.updated = TaskState.FAILED, NO, 6
    assert store.close_tasks([done, lost, failed]) == [True, False, True]
    first, second, third = (stored_task(store, uuid) for uuid in ("t1", "t2", "t3"))
    assert (first.state, first.result, first.updated) == (TaskState.COMPLETED, {"run": "r"}, 5)
    assert second.state == TaskState.PENDING
    assert (third.state, third.error, third.updated) == (TaskState.FAILED, NO, 6)
    assert store.close_tasks([done]) == [False]
    assert store.close_tasks([]) == []
