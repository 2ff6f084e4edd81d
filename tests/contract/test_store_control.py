"""What an operator does to a run: pause it and let it go on. Whoever holds it is fenced at once.

Each is one transaction over the run and its tasks: nobody sees a paused run whose tasks can still be claimed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_records import (
    LONG,
    RUN,
    OpenStore,
    a_run,
    a_runner,
    a_task,
    a_waiting_step,
    an_outcome,
    begin,
    claimed,
    eventually,
    stored_run,
    stored_task,
    wait_outside,
)

from afl.kernel.errors import FencedError
from afl.runtime.entities import RunnerDefinition, RunnerState, TaskDefinition, TaskHold, TaskState
from afl.runtime.events import mark_of
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.types import WorkflowId

WHY = "paused by öperator"
OVER = [RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELED]


def the_runner(store: PersistenceAPI) -> RunnerDefinition:
    runner = store.get_runner("r")
    assert runner is not None
    return runner


# -- pause ----------------------------------------------------------------------------------------------------


def test_a_paused_run_has_no_evaluator(store: PersistenceAPI) -> None:
    run = begin(store, inputs={"n": 1})
    assert store.pause_run(RUN, WHY)
    paused = stored_run(store)
    assert (paused.state, paused.reason, paused.owner, paused.lease_until) == (RunnerState.PAUSED, WHY, "", 0)
    assert paused.inputs == {"n": 1}
    with pytest.raises(FencedError):
        store.commit(IterationChanges(run=run, created_tasks=[a_task()]))
    assert store.get_all_tasks() == []
    shown = store.take_run(RUN, lease_ms=LONG)
    assert shown is not None
    assert (shown.state, shown.owner) == (RunnerState.PAUSED, "")
    assert store.get_due_runs() == []


def test_no_task_of_a_paused_run_is_claimed(store: PersistenceAPI) -> None:
    begin(store)
    wait_outside(store)
    store.save_task(a_task("other", workflow_id="run-2"))
    assert store.pause_run(RUN, WHY)
    tasks = store.claim_tasks(["F"], limit=5, any_event=True)
    assert [task.uuid for task in tasks] == ["other"]
    held = stored_task(store, "task-s")
    assert (held.state, held.hold) == (TaskState.PENDING, TaskHold.PAUSED)


def test_tasks_that_run_go_on_and_their_results_wait(store: PersistenceAPI) -> None:
    begin(store)
    wait_outside(store)
    task = claimed(store)
    assert store.pause_run(RUN, WHY)
    assert store.renew("worker", LONG) == [(task.uuid, task.epoch)]
    outcome = an_outcome(a_waiting_step(n=1), task, out=1)
    assert store.finish([outcome]) == [True]
    assert store.get_marks(RUN) == [mark_of(outcome)]
    assert store.get_due_runs() == []
    assert store.unpause_run(RUN)
    assert store.get_due_runs() == [RUN]


@pytest.mark.parametrize("state", [RunnerState.CREATED, RunnerState.RUNNING])
def test_a_run_that_goes_on_is_paused_once(store: PersistenceAPI, state: str) -> None:
    begin(store, owner="", state=state)
    assert store.pause_run(RUN, WHY)
    before = stored_run(store)
    assert not store.pause_run(RUN, "again")
    assert stored_run(store) == before


@pytest.mark.parametrize("state", OVER)
def test_a_run_that_is_over_is_not_paused_or_canceled(store: PersistenceAPI, state: str) -> None:
    begin(store, owner="", state=state, ended=5)
    before = stored_run(store)
    assert not store.pause_run(RUN, WHY)
    assert not store.unpause_run(RUN)
    assert not store.cancel_run(RUN, WHY)
    assert stored_run(store) == before


def test_a_run_that_is_not_there(store: PersistenceAPI) -> None:
    missing = WorkflowId("missing")
    assert not store.pause_run(missing, WHY)
    assert not store.unpause_run(missing)
    assert not store.cancel_run(missing, WHY)
    assert store.get_runs() == []


def test_an_unpaused_run_goes_on_where_it_stood(store: PersistenceAPI) -> None:
    begin(store, iterations=3)
    wait_outside(store)
    assert store.pause_run(RUN, WHY)
    assert store.unpause_run(RUN)
    assert not store.unpause_run(RUN)
    run = stored_run(store)
    assert (run.state, run.reason, run.owner) == (RunnerState.RUNNING, "", "")
    assert store.get_due_runs() == [RUN]  # it was stopped between two fixed points
    assert claimed(store).uuid == "task-s"
    taken = store.take_run(RUN, lease_ms=LONG)
    assert taken is not None
    assert taken.owner == store.owner_id


def test_a_run_that_was_paused_before_it_began_begins_when_unpaused(store: PersistenceAPI) -> None:
    assert store.insert_run(a_run(epoch=0, state=RunnerState.CREATED))
    assert store.pause_run(RUN, WHY)
    assert store.get_due_runs() == []
    assert store.unpause_run(RUN)
    assert stored_run(store).state == RunnerState.CREATED
    assert store.get_due_runs() == [RUN]


def test_a_run_that_waited_for_others_is_not_due_for_having_been_paused(store: PersistenceAPI) -> None:
    begin(store, owner="", settled=True)
    assert store.pause_run(RUN, WHY)
    assert store.unpause_run(RUN)
    assert store.get_due_runs() == []


def release(store: PersistenceAPI, task: TaskDefinition) -> None:
    assert store.release_tasks(task.owner, died=False) == 1


def give_back(store: PersistenceAPI, task: TaskDefinition) -> None:
    assert store.return_tasks([task]) == 1


def requeue(store: PersistenceAPI, task: TaskDefinition) -> None:
    assert store.requeue(task, 0, {"message": "no"})


def bury(store: PersistenceAPI, task: TaskDefinition) -> None:
    assert store.release_tasks(task.owner, died=True) == 1


@pytest.mark.parametrize("come_back", [release, give_back, requeue, bury])
def test_a_task_that_comes_back_while_its_run_is_paused_waits_too(
    store: PersistenceAPI, come_back: Callable[[PersistenceAPI, TaskDefinition], None]
) -> None:
    begin(store)
    wait_outside(store)
    task = claimed(store)
    assert store.pause_run(RUN, WHY)
    come_back(store, task)
    eventually(lambda: store.now() > stored_task(store, task.uuid).not_before)
    assert store.claim_task(["F"]) is None
    held = stored_task(store, task.uuid)
    assert (held.state, held.hold) == (TaskState.PENDING, TaskHold.PAUSED)
    assert store.unpause_run(RUN)
    assert claimed(store).uuid == task.uuid


def test_a_timed_out_task_that_is_tried_again_while_its_run_is_paused_waits_too(
    store: PersistenceAPI,
) -> None:
    begin(store)
    wait_outside(store, timeout_ms=1)
    store.start_tasks([claimed(store)])  # its time begins to run
    eventually(store.reclaim)
    assert stored_task(store, "task-s").hold == TaskHold.TIMEOUT
    assert store.pause_run(RUN, WHY)
    requeue(store, stored_task(store, "task-s"))
    eventually(lambda: store.now() > stored_task(store, "task-s").not_before)
    assert store.claim_task(["F"]) is None
    assert store.unpause_run(RUN)
    assert claimed(store).uuid == "task-s"


@pytest.mark.parametrize("hold", [TaskHold.POISONED, TaskHold.TIMEOUT])
def test_other_holds_outlast_a_pause(store: PersistenceAPI, hold: str) -> None:
    begin(store)
    store.save_task(a_task(hold=hold))
    assert store.pause_run(RUN, WHY)
    assert stored_task(store).hold == hold
    assert store.unpause_run(RUN)
    assert stored_task(store).hold == hold
    assert store.claim_task(["F"]) is None


def test_the_runner_record_follows_a_pause(store: PersistenceAPI) -> None:
    store.save_runner(a_runner(state=RunnerState.RUNNING))
    begin(store, runner_id="r", iterations=3)
    assert store.pause_run(RUN, WHY)
    assert the_runner(store).state == RunnerState.PAUSED
    assert store.unpause_run(RUN)
    assert the_runner(store).state == RunnerState.RUNNING
    assert the_runner(store).end_time == 0


# -- at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancel", [True, False], ids=["cancel", "pause"])
def test_claimers_and_an_operator_at_once(open_store: OpenStore, cancel: bool) -> None:
    """Once the run is paused or canceled nobody receives any more of its tasks."""
    stores = [open_store() for _ in range(3)]
    begin(stores[0])
    stores[0].commit(IterationChanges(created_tasks=[a_task(f"t{n}", step_id=f"s{n}") for n in range(60)]))
    together = threading.Barrier(len(stores))

    def work(store: PersistenceAPI) -> list[str]:
        together.wait()
        received: list[str] = []
        while task := store.claim_task(["F"], lease_ms=LONG):
            received.append(task.uuid)
        return received

    def operate() -> bool:
        together.wait()
        return stores[0].cancel_run(RUN, WHY) if cancel else stores[0].pause_run(RUN, WHY)

    with ThreadPoolExecutor(len(stores)) as pool:
        workers = [pool.submit(work, store) for store in stores[1:]]
        assert pool.submit(operate).result()
        received = [uuid for worker in workers for uuid in worker.result()]
    assert len(received) == len(set(received))
    tasks = stores[0].get_tasks_by_workflow(RUN)
    if cancel:
        assert {task.state for task in tasks} == {TaskState.CANCELED}
    else:
        running = {task.uuid for task in tasks if task.state == TaskState.RUNNING}
        assert running == set(received)
        waiting = [task for task in tasks if task.state == TaskState.PENDING]
        assert {task.hold for task in waiting} <= {TaskHold.PAUSED}
        assert len(running) + len(waiting) == 60


def test_a_commit_and_a_pause_at_once_never_mix(open_store: OpenStore) -> None:
    """What the holder committed before is held with the rest; what comes later is refused."""
    store, operator = open_store(), open_store()
    together = threading.Barrier(2)

    def commit(number: int) -> bool:
        run = stored_run(store, f"run-{number}")
        together.wait()
        try:
            store.commit(
                IterationChanges(run=run, created_tasks=[a_task(f"t{number}", workflow_id=f"run-{number}")])
            )
        except FencedError:
            return False
        return True

    def pause(number: int) -> bool:
        together.wait()
        return operator.pause_run(WorkflowId(f"run-{number}"), WHY)

    for number in range(10):
        begin(store, f"run-{number}")
        with ThreadPoolExecutor(2) as pool:
            committed, paused = pool.submit(commit, number), pool.submit(pause, number)
            assert paused.result()
            tasks = [f"t{number}"] if committed.result() else []
        found = store.get_tasks_by_workflow(WorkflowId(f"run-{number}"))
        assert [task.uuid for task in found] == tasks
        assert {task.hold for task in found} <= {TaskHold.PAUSED}
        assert stored_run(store, f"run-{number}").state == RunnerState.PAUSED
    assert store.claim_task(["F"]) is None
