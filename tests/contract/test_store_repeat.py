"""Repeat on every store: what ended long ago is removed with all that belongs to it, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import RUN, OpenStore, a_step, a_task, an_event, begin

from afl.kernel.errors import FencedError
from afl.language import compile_source
from afl.runtime.entities import TaskDefinition, TaskState, retried
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.usage import UsageRecord
from afl.runtime.states import StepState
from afl.runtime.stores.usage_store import usage_store
from afl.runtime.types import StepId, WorkflowId

SOURCE = """
event facet Poll(n: Long) => (m: Long)
workflow Wait(end: Long) => (n: Long = 0, seen: [Long] = []) andThen repeat last limit 30 {
    a = Poll(n = last.n)
    yield Wait(n = a.m, seen = last.seen ++ [a.m])
} until last.n >= $.end
"""
PROGRAM: dict[str, Any] = compile_source(SOURCE).program


def polled(store: PersistenceAPI, result: ExecutionResult, times: int) -> ExecutionResult:
    """The run after so many answers, each followed by an evaluator that knows nothing but the store."""
    for _ in range(times):
        (task,) = [t for t in tasks_of(store, result.workflow_id) if t.state == TaskState.PENDING]
        assert Evaluator(store).continue_step(StepId(task.step_id), {"m": task.params["n"] + 1})
        result = Evaluator(store).resume(result.workflow_id)
    return result


def tasks_of(store: PersistenceAPI, run: WorkflowId) -> list[TaskDefinition]:
    return store.get_tasks_by_workflow(run)


def iterations(store: PersistenceAPI, run: WorkflowId) -> list[int]:
    segments = [step.id.split("/") for step in store.get_steps_by_workflow(run)]
    return sorted(int(each[2][1:]) for each in segments if len(each) == 3)


def test_the_last_ten_iterations_stay(store: PersistenceAPI) -> None:
    started = Evaluator(store).execute(PROGRAM["workflows"][0], {"end": 25}, PROGRAM)
    halfway = polled(store, started, 12)
    run = halfway.workflow_id
    assert iterations(store, run) == list(range(2, 13))
    assert len(tasks_of(store, run)) == 11
    assert {event.step_id for event in store.get_events_by_workflow(run)} == {
        task.step_id for task in tasks_of(store, run)
    }
    done = polled(store, halfway, 13)
    assert (done.status, done.outputs) == (
        ExecutionStatus.COMPLETED,
        {"n": 25, "seen": list(range(1, 26))},
    )
    assert iterations(store, run) == list(range(14, 25))
    assert len(store.get_steps_by_workflow(run)) == 2 + 3 * 11
    assert store.get_open_steps(run) == []


def test_the_limit_ends_it(store: PersistenceAPI) -> None:
    started = Evaluator(store).execute(PROGRAM["workflows"][0], {"end": 99}, PROGRAM)
    failed = polled(store, started, 30)
    assert failed.status == ExecutionStatus.ERROR
    assert getattr(failed.error, "error_type", "") == "IterationLimit"


def test_a_retry_begins_a_loop_that_failed_itself_anew(store: PersistenceAPI) -> None:
    started = Evaluator(store).execute(PROGRAM["workflows"][0], {"end": 99}, PROGRAM)
    run = polled(store, started, 30).workflow_id
    assert Evaluator(store).retry(run) == 1
    assert Evaluator(store).resume(run).status == ExecutionStatus.PAUSED
    assert iterations(store, run) == [0]
    assert [task.params for task in tasks_of(store, run)] == [{"n": 0}]


def removal(store: PersistenceAPI) -> IterationChanges:
    """A run with iterations 1, 10 and 2 that ended, each with all that may belong to one; 1 is to be removed."""
    run = begin(store)
    stored = IterationChanges(run=run)
    for number in (1, 10, 2):
        inside = f"{RUN}/0/#{number}"
        for step_id in (inside, f"{inside}/a", f"{inside}/a/0/b"):
            stored.add_created_step(a_step(step_id, state=StepState.STATEMENT_COMPLETE))
        stored.add_created_event(an_event(f"event-{number}", step_id=f"{inside}/a"))
    store.commit(stored)
    for number in (1, 10, 2):
        inside = f"{RUN}/0/#{number}/a"
        store.save_task(a_task(f"task-{number}", step_id=inside, state=TaskState.COMPLETED))
        store.save_task(
            a_task(
                f"untold-{number}", step_id=inside, state=TaskState.CANCELED, hold="elsewhere", via="agent:x"
            )
        )
    changes = IterationChanges(run=run)
    changes.removed.append(StepId(f"{RUN}/0/#1"))
    return changes


def test_a_subtree_is_removed_and_nothing_beside_it(store: PersistenceAPI) -> None:
    store.commit(removal(store))
    left = {step.id for step in store.get_steps_by_workflow(RUN)}
    assert left == {f"{RUN}/0/#{n}{rest}" for n in (10, 2) for rest in ("", "/a", "/a/0/b")}
    assert {e.id for e in store.get_events_by_workflow(RUN)} >= {"event-10", "event-2"}
    assert "event-1" not in {e.id for e in store.get_events_by_workflow(RUN)}
    assert {task.uuid for task in tasks_of(store, RUN)} == {
        "task-10",
        "task-2",
        "untold-1",
        "untold-10",
        "untold-2",
    }


def test_a_commit_that_is_refused_removes_nothing(store: PersistenceAPI) -> None:
    changes = removal(store)
    assert changes.run is not None
    changes.run.epoch += 1
    with pytest.raises(FencedError):
        store.commit(changes)
    assert len(store.get_steps_by_workflow(RUN)) == 9
    assert len(tasks_of(store, RUN)) == 6


def test_what_models_used_in_removed_iterations_stays_counted(open_store: OpenStore) -> None:
    store = open_store()
    usage = usage_store(store)
    assert usage is not None
    record = UsageRecord(RUN, f"{RUN}/0/#1/a", "task-1", "m", 1, 2, 3, 4, 0.5, 1)
    usage.record_usage(record)
    store.commit(removal(store))
    assert usage.get_usage(RUN) == [record]


def test_failed_attempts_of_removed_tasks_go_with_them(store: PersistenceAPI) -> None:
    started = Evaluator(store).execute(PROGRAM["workflows"][0], {"end": 25}, PROGRAM)
    run = started.workflow_id
    (task,) = store.claim_tasks(["Poll"], limit=1, workflow_id=run)
    error = {"message": "once", "type": "ValueError"}
    assert store.requeue(retried(task, error, 0), 0, error)
    assert len(store.get_failed_attempts(run)) == 1
    polled(store, Evaluator(store).resume(run), 11)
    assert store.get_failed_attempts(run) == []
