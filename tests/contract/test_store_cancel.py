"""An operator cancels a run: it is over, and its tasks are canceled, whoever holds them."""

from __future__ import annotations

import pytest
from store_records import (
    LONG,
    RUN,
    Everything,
    a_mark,
    a_runner,
    a_task,
    a_waiting_step,
    an_outcome,
    begin,
    claimed,
    stored_run,
    stored_task,
    wait_outside,
)

from afl.kernel.errors import FencedError
from afl.runtime.entities import RunnerState, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.states import EventState, StepState
from afl.runtime.types import EventId, StepId

WHY = "no longer needed"


def test_a_canceled_run_is_over(store: PersistenceAPI) -> None:
    store.save_runner(a_runner(start_time=100, state=RunnerState.RUNNING))
    run = begin(store, runner_id="r")
    store.save_event(a_mark("m"))
    assert store.cancel_run(RUN, WHY)
    over = stored_run(store)
    assert (over.state, over.reason, over.owner) == (RunnerState.CANCELED, WHY, "")
    assert (over.is_over, over.lease_until, over.epoch) == (True, 0, run.epoch + 1)
    assert over.ended > 0
    assert over.error is not None
    assert WHY in over.error["message"]
    assert store.get_marks(RUN) == []
    assert store.get_due_runs() == []
    runner = store.get_runner("r")
    assert runner is not None
    assert (runner.state, runner.workflow_id) == (RunnerState.CANCELED, RUN)
    assert runner.end_time - runner.start_time == runner.duration
    assert not store.cancel_run(RUN, "again")
    assert stored_run(store) == over


def test_the_holder_of_a_canceled_run_is_fenced(store: PersistenceAPI) -> None:
    run = begin(store)
    assert store.cancel_run(RUN, WHY)
    before = Everything.of(store)
    run.state, run.ended = RunnerState.COMPLETED, 5
    with pytest.raises(FencedError):
        store.commit(IterationChanges(run=run, created_tasks=[a_task()]))
    store.release_run(run)
    assert Everything.of(store) == before


def test_all_open_tasks_of_a_canceled_run_are_canceled(store: PersistenceAPI) -> None:
    begin(store)
    wait_outside(store, "s1")
    wait_outside(store, "s2")
    running = claimed(store, lock_ms=LONG)
    for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.IGNORED):
        store.save_task(a_task(state, state=state))
    for hold in (TaskHold.POISONED, TaskHold.TIMEOUT):
        store.save_task(a_task(hold, hold=hold))
    store.save_task(a_task("other", workflow_id="run-2"))
    assert store.cancel_run(RUN, WHY)
    states = {task.uuid: task.state for task in store.get_tasks_by_workflow(RUN)}
    assert {uuid for uuid, state in states.items() if state == TaskState.CANCELED} == {
        "task-s1",
        "task-s2",
        TaskHold.POISONED,
        TaskHold.TIMEOUT,
    }
    assert all(states[state] == state for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.IGNORED))
    assert [task.uuid for task in store.claim_tasks(["F"], limit=9)] == ["other"]
    assert store.find_tasks(TaskFilter(hold=TaskHold.POISONED)) == []
    event = store.get_event(EventId(running.uuid))
    assert event is not None
    assert EventState.is_terminal(event.state)
    assert store.check_lock(f"runner:task:{running.uuid}") is None


def test_who_works_on_a_task_of_a_canceled_run_is_told(store: PersistenceAPI) -> None:
    begin(store)
    wait_outside(store)
    task = claimed(store)
    assert store.cancel_run(RUN, WHY)
    before = Everything.of(store)
    assert store.renew("worker", LONG) == []
    assert not store.renew_task(task, LONG)
    assert store.finish([an_outcome(a_waiting_step(n=1), task, out=1)]) == [False]
    assert not store.requeue(task, 0, {"message": "no"})
    assert store.return_tasks([task]) == 0
    assert store.release_tasks("worker", died=True) == 0
    assert Everything.of(store) == before


def test_the_steps_of_a_canceled_run_stay_as_they_were(store: PersistenceAPI) -> None:
    begin(store)
    wait_outside(store)
    assert store.cancel_run(RUN, WHY)
    step = store.get_step(StepId("s"))
    assert step is not None
    assert step.state == StepState.EVENT_TRANSMIT


def test_a_paused_run_can_be_canceled(store: PersistenceAPI) -> None:
    begin(store)
    wait_outside(store)
    assert store.pause_run(RUN, WHY)
    assert store.cancel_run(RUN, "enough")
    assert (stored_run(store).state, stored_run(store).reason) == (RunnerState.CANCELED, "enough")
    assert stored_task(store, "task-s").state == TaskState.CANCELED
    assert not store.unpause_run(RUN)
    assert store.claim_task(["F"]) is None
