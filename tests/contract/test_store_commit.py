"""`commit`: the changes of whole iterations, stored together.

Together are: the run's own record (which is the fence), new and changed steps, events, tasks, log entries, and the
marks that were consumed. What refuses a commit is in `test_store_refusals.py`.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import pytest
from store_records import (
    LONG,
    NOTHING,
    RUN,
    Everything,
    OpenStore,
    a_mark,
    a_run,
    a_runner,
    a_step,
    a_task,
    a_waiting_step,
    all_kinds,
    an_event,
    begin,
    begin_with_all_kinds,
    wait_outside,
)

from afl.kernel.errors import FencedError, HeldError
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.states import EventState, StepState
from afl.runtime.step import BlockProgress
from afl.runtime.types import EventId, StepId, WorkflowId


def test_everything_of_a_commit_is_stored(store: PersistenceAPI) -> None:
    run = begin_with_all_kinds(store)
    run.iterations, run.waiting, run.settled = 3, 1, True
    store.commit(all_kinds(run))
    found = Everything.of(store)
    assert sorted((step.id, step.state) for step in found.steps) == [
        ("new-1", StepState.EVENT_TRANSMIT),
        ("new-2", StepState.CREATED),
        ("old", StepState.STATEMENT_COMPLETE),
    ]
    assert sorted((event.id, event.state) for event in found.events) == [
        ("new-event", EventState.CREATED),
        ("new-task", EventState.CREATED),
        ("old-event", EventState.COMPLETED),
    ]
    assert [(task.uuid, task.state) for task in found.tasks] == [
        ("old-task", TaskState.COMPLETED),
        ("new-task", TaskState.PENDING),
    ]
    assert [log.uuid for log in found.logs] == ["new-log", "old-log"]
    assert found.run is not None
    assert (found.run.iterations, found.run.waiting, found.run.settled) == (3, 1, True)


def test_changed_steps_change_in_all_that_may_change(store: PersistenceAPI) -> None:
    run = begin(store)
    store.save_step(a_waiting_step(n=1))
    step = store.get_step(StepId("s"))
    assert step is not None
    step.change_state(StepState.STATEMENT_BLOCKS_CONTINUE)
    step.transition.commit()
    step.set_attribute("n", [2, None])
    step.attributes.set_return("out", 3, "Int")
    step.progress, step.ended, step.timestamp = BlockProgress(2, 1), 9, 8
    step.request_state_change(True)
    changes = IterationChanges(run=run)
    changes.add_updated_step(step)
    store.commit(changes)
    found = store.get_step(StepId("s"))
    step.transition.commit()
    step.request_state_change(True)
    step.transition.changed = False
    assert found == step


def test_a_step_created_and_changed_in_one_commit_is_stored_as_created(store: PersistenceAPI) -> None:
    changes = IterationChanges()
    step = a_step()
    changes.add_created_step(step)
    step.change_state(StepState.STATEMENT_END)
    changes.touch(step)
    changes.add_updated_step(step)
    store.commit(changes)
    found = store.get_step(step.id)
    assert found is not None
    assert found.state == StepState.STATEMENT_END


def test_a_commit_without_a_run_has_no_fence(store: PersistenceAPI) -> None:
    store.commit(all_kinds())
    found = Everything.of(store)
    assert len(found.steps) == 2
    assert found.run is None


def test_an_empty_commit_is_nothing_to_do(store: PersistenceAPI) -> None:
    store.commit(IterationChanges())
    assert Everything.of(store) == NOTHING


def test_what_is_committed_is_a_copy(store: PersistenceAPI) -> None:
    step = a_waiting_step(n=[1])
    store.commit(IterationChanges(created_steps=[step]))
    step.attributes.params["n"].value.append(2)
    found = store.get_step(step.id)
    assert found is not None
    assert found.get_attribute("n") == [1]


def test_many_steps_events_and_tasks_at_once(store: PersistenceAPI) -> None:
    changes = IterationChanges(run=a_run(), new_run=True)
    for number in range(2000):
        changes.add_created_step(a_waiting_step(f"s{number:04}", n=number))
        changes.add_created_task(a_task(f"t{number:04}", step_id=f"s{number:04}", data={"n": number}))
        changes.add_created_event(an_event(f"t{number:04}", step_id=f"s{number:04}"))
    store.commit(changes)
    found = Everything.of(store)
    assert [step.get_attribute("n") for step in found.steps] == list(range(2000))
    assert [task.data for task in found.tasks] == [{"n": number} for number in range(2000)]
    assert len(found.events) == 2000


def test_a_commit_closes_the_task_it_holds(store: PersistenceAPI) -> None:
    run = begin_with_all_kinds(store)
    held = store.claim_task(["F"], owner="worker", lease_ms=LONG)
    assert held is not None
    closed = copy(held)
    closed.state, closed.error, closed.updated = TaskState.FAILED, {"message": "no"}, 5
    changes = IterationChanges(run=run)
    changes.updated_tasks = [closed]
    store.commit(changes)
    found = store.get_task(held.uuid)
    assert found is not None
    assert (found.state, found.error, found.updated) == (TaskState.FAILED, {"message": "no"}, 5)


def test_a_commit_by_its_holder_keeps_the_run(store: PersistenceAPI) -> None:
    run = begin(store)
    store.commit(IterationChanges(run=run))
    found = store.get_run(RUN)
    assert found is not None
    assert (found.owner, found.epoch) == (store.owner_id, 1)
    assert found.lease_until > 0
    with pytest.raises(HeldError):
        store.take_run(RUN, lease_ms=LONG)


def test_a_commit_without_owner_lets_the_run_go(store: PersistenceAPI) -> None:
    run = begin(store)
    run.owner = ""
    store.commit(IterationChanges(run=run))
    found = store.get_run(RUN)
    assert found is not None
    assert (found.owner, found.lease_until, found.epoch) == ("", 0, 1)
    taken = store.take_run(RUN, lease_ms=LONG)
    assert taken is not None
    assert taken.epoch == 2


def test_tasks_can_be_born_claimed(store: PersistenceAPI) -> None:
    """A session keeps the tasks it serves itself; nobody else gets them while it holds them."""
    run = begin(store)
    task = a_task(step_id="s", state=TaskState.RUNNING, owner=store.owner_id, epoch=1, deliveries=1)
    store.commit(IterationChanges(run=run, created_steps=[a_waiting_step()], created_tasks=[task]))
    assert store.claim_task(["F"]) is None
    assert store.reclaim() == 0
    born = store.get_task(task.uuid)
    assert born is not None
    assert (born.owner, born.epoch, born.state) == (store.owner_id, 1, TaskState.RUNNING)
    assert born.lease_until > 0
    born.state = TaskState.COMPLETED
    store.commit(IterationChanges(run=run, updated_tasks=[born]))
    closed = store.get_task(task.uuid)
    assert closed is not None
    assert closed.state == TaskState.COMPLETED


@pytest.mark.parametrize("state", [RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELED])
def test_the_runner_record_follows_the_end_of_its_run(store: PersistenceAPI, state: str) -> None:
    run = begin(store, runner_id="r")
    store.save_runner(a_runner(start_time=100, state=RunnerState.RUNNING, workflow_id="before"))
    store.save_runner(a_runner("other", state=RunnerState.RUNNING))
    store.commit(IterationChanges(run=run))
    unchanged = store.get_runner("r")
    assert unchanged is not None
    assert unchanged.state == RunnerState.RUNNING
    run.state, run.ended, run.owner = state, 350, ""
    store.commit(IterationChanges(run=run))
    runner, other = store.get_runner("r"), store.get_runner("other")
    assert runner is not None
    assert other is not None
    assert (runner.state, runner.end_time, runner.duration, runner.workflow_id) == (state, 350, 250, RUN)
    assert other.state == RunnerState.RUNNING


def test_a_commit_and_a_takeover_at_once_never_mix(open_store: OpenStore) -> None:
    """The old holder's commit comes whole before the takeover, or not at all."""
    old, new = open_store(), open_store()
    together = threading.Barrier(2)

    def commit(run: RunDefinition) -> bool:
        together.wait()
        try:
            old.commit(all_kinds(run, prefix=run.workflow_id))
        except FencedError:
            return False
        return True

    def take(run: RunDefinition) -> RunDefinition | None:
        together.wait()
        return new.take_run(WorkflowId(run.workflow_id), lease_ms=LONG)

    for number in range(10):
        run = begin(old, f"run-{number}", owner="")
        with ThreadPoolExecutor(2) as pool:
            committed, taken = pool.submit(commit, copy(run)), pool.submit(take, run).result()
        assert taken is not None
        assert taken.epoch == 2
        steps = old.get_steps([StepId(f"run-{number}-1"), StepId(f"run-{number}-2")])
        assert len(steps) == (2 if committed.result() else 0)
        with pytest.raises(FencedError):
            old.commit(IterationChanges(run=run, created_steps=[a_step(f"late-{number}")]))
        new.commit(IterationChanges(run=taken, created_steps=[a_step(f"next-{number}")]))
        assert [step.id for step in old.get_steps([StepId(f"late-{number}"), StepId(f"next-{number}")])] == [
            f"next-{number}"
        ]


def test_commits_of_different_runs_at_once_all_land(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    together = threading.Barrier(len(stores))

    def work(number: int) -> None:
        together.wait()
        run = begin(stores[number], f"run-{number}")
        for turn in range(10):
            name = f"{number}-{turn}"
            step, task = (
                a_waiting_step(f"s{name}", run.workflow_id),
                a_task(f"t{name}", workflow_id=run.workflow_id),
            )
            stores[number].commit(IterationChanges(run=run, created_steps=[step], created_tasks=[task]))

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(work, range(len(stores))))
    for number in range(len(stores)):
        found = Everything.of(stores[0], f"run-{number}")
        assert (len(found.steps), len(found.tasks)) == (10, 10)
    claimed: list[TaskDefinition] = stores[0].claim_tasks(["F"], limit=100)
    assert len({task.uuid for task in claimed}) == 40


def test_a_finished_task_and_a_commit_meet(open_store: OpenStore) -> None:
    """A mark that arrives while its run commits is neither lost nor consumed unread."""
    store, worker = open_store(), open_store()
    run = begin(store)
    task = wait_outside(store)
    assert worker.claim_task(["F"], owner="worker", lease_ms=LONG) is not None
    worker.save_event(a_mark("late"))
    store.commit(IterationChanges(run=run, consumed_events=[EventId("early")]))
    assert [mark.id for mark in store.get_marks(RUN)] == ["late"]
    assert store.get_task(task.uuid) is not None
