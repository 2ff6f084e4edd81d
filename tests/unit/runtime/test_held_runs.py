"""Runs that a worker holds: results delivered to them or left as marks, runs kept and released, trouble."""

from __future__ import annotations

from typing import Any

import pytest
from support.agents import LONG, Recorder, begin, only_task, run_of, store_results, submit

from afl.kernel.errors import StoreUnavailable
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import StepId
from afl.runtime.worker.held_runs import HeldRuns
from afl.runtime.worker.results import TaskResult

Told = list[tuple[str, str | None]]


class Runs(HeldRuns):
    """With a short way to report results."""

    def __init__(self, evaluator: Evaluator, *args: Any) -> None:
        super().__init__(evaluator, *args)
        self.evaluator = evaluator

    def deliver(self, *results: TaskResult) -> None:
        store_results(self.evaluator, self, results)


def runs_on(
    store: PersistenceAPI, *, keeps: bool = False, expects: bool = False, told: Told | None = None
) -> Runs:
    def stored(result: TaskResult, problem: str | None) -> None:
        if told is not None:
            told.append((result.task.uuid, problem))

    return Runs(Evaluator(store), (lambda task: True) if keeps else None, lambda workflow_id: expects, stored)


class Faulty(Telemetry):
    """Breaks the evaluation of one run."""

    def __init__(self, run: str) -> None:
        super().__init__(enabled=False)
        self._run = run

    def log_resume(self, workflow_id: str) -> None:
        if workflow_id == self._run:
            raise ZeroDivisionError("a bug")


def take(store: PersistenceAPI, **terms: Any) -> TaskDefinition:
    task = store.claim_task(["Double"], **{"lease_ms": LONG, **terms})
    assert task is not None
    return task


def held_by_another(store: MemoryStore, run: str) -> None:
    """Somebody else evaluates the run."""
    taken = store.take_run(run, lease_ms=LONG)  # type: ignore[arg-type]
    assert taken is not None
    stored = IterationChanges(run=taken)
    taken.owner, taken.settled = "another", True
    store.commit(stored)


def test_an_answer_and_all_that_follows_is_one_commit(store: MemoryStore) -> None:
    run = begin(store, "ns.Twice")
    recorder, told = Recorder(store), Told()
    runs = runs_on(recorder.api, told=told)
    task = take(store)
    runs.deliver(TaskResult(task, {"m": 6}))
    assert recorder.count("commit_all") + recorder.count("commit") == 1
    assert [each.state for each in store.get_tasks_by_workflow(run)] == [
        TaskState.COMPLETED,
        TaskState.PENDING,
    ]
    assert told == [(task.uuid, None)]
    assert run_of(store, run).owner == ""


def test_tasks_born_here_are_handed_out_claimed(store: MemoryStore) -> None:
    run = submit(store, "ns.Twice")
    runs = runs_on(store, keeps=True)
    assert runs.advance_due() == 1
    (task,) = runs.take_claimed()
    assert runs.take_claimed() == []
    assert (task.state, task.owner, task.deliveries) == (TaskState.RUNNING, store.owner_id, 1)
    assert only_task(store, run).epoch == task.epoch
    runs.deliver(TaskResult(task, {"m": 6}))
    (second,) = runs.take_claimed()
    runs.deliver(TaskResult(second, {"m": 12}))
    assert run_of(store, run).outputs == {"m": 12}


def test_a_run_is_kept_while_answers_are_to_come_and_let_go_then(store: MemoryStore) -> None:
    run = submit(store, "ns.Many", {"list": [1, 2]})
    runs = runs_on(store, keeps=True, expects=True)
    runs.advance_due()
    kept = runs.holds_anything
    assert run_of(store, run).owner == store.owner_id
    runs.release_all()
    assert (kept, runs.holds_anything) == (True, False)
    assert run_of(store, run).owner == ""


def test_answers_for_a_run_that_another_holds_are_left_as_marks(store: MemoryStore) -> None:
    run = begin(store)
    task = take(store)
    held_by_another(store, run)
    told = Told()
    runs_on(store, told=told).deliver(TaskResult(task, {"m": 6}))
    assert only_task(store, run).state == TaskState.COMPLETED
    assert len(store.get_marks(run)) == 1
    assert run_of(store, run).owner == "another"
    assert told == [(task.uuid, None)]


def test_an_answer_for_a_step_that_moved_on_is_ignored(store: MemoryStore) -> None:
    run = begin(store, "ns.Twice")
    first = take(store)
    # Somebody else's task of the same step, which the step does not wait for any more.
    other = TaskDefinition("t9", "ns.Double", "", run, "", first.step_id)
    assert Evaluator(store).continue_step(StepId(first.step_id), {"m": 1})
    Evaluator(store).resume(run)
    store.save_task(other)
    claimed = store.claim_task(["Double"], lease_ms=LONG)
    while claimed is not None and claimed.uuid != "t9":
        claimed = store.claim_task(["Double"], lease_ms=LONG)
    assert claimed is not None
    runs_on(store).deliver(TaskResult(claimed, {"m": 100}))
    ignored = store.get_task("t9")
    assert ignored is not None
    assert (ignored.state, ignored.result) == (TaskState.IGNORED, None)
    assert first.step_id in {task.step_id for task in store.get_tasks_by_workflow(run)}


def test_an_answer_under_a_claim_that_is_over_changes_nothing(store: MemoryStore) -> None:
    run = begin(store)
    stale = take(store, owner="first")
    store.release_tasks("first", died=True)
    fresh = take(store, owner="second")
    runs_on(store).deliver(TaskResult(stale, {"m": 100}))
    assert only_task(store, run).owner == "second"
    assert run_of(store, run).state == RunnerState.RUNNING
    runs_on(store).deliver(TaskResult(fresh, {"m": 6}))
    assert run_of(store, run).outputs == {"m": 6}


def test_a_stale_answer_does_not_keep_the_others_from_being_stored(store: MemoryStore) -> None:
    run = begin(store, "ns.Many", {"list": [1, 2, 3]})
    tasks = store.claim_tasks(["Double"], limit=3, owner="me", lease_ms=LONG)
    assert store.return_tasks([tasks[1]]) == 1
    runs_on(store).deliver(*[TaskResult(task, {"m": (task.data or {})["n"] * 2}) for task in tasks])
    states = sorted(task.state for task in store.get_tasks_by_workflow(run))
    assert states == [TaskState.COMPLETED, TaskState.COMPLETED, TaskState.PENDING]


def test_answers_are_kept_until_they_are_stored(store: MemoryStore) -> None:
    ids = [begin(store), begin(store)]
    tasks = [take(store), take(store)]
    recorder = Recorder(store)
    runs = runs_on(recorder.api)
    recorder.fail("commit_all", StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable):
        runs.deliver(*[TaskResult(task, {"m": 6}) for task in tasks])
    kept = runs.has_unstored
    runs.store()
    assert (kept, runs.has_unstored) == (True, False)
    assert [run_of(store, run).outputs for run in ids] == [{"m": 6}] * 2


def test_due_runs_that_another_holds_are_left_alone(store: MemoryStore) -> None:
    run = begin(store)
    held_by_another(store, run)
    assert not runs_on(store).advance(run)
    assert run_of(store, run).owner == "another"


def test_a_run_that_cannot_be_evaluated_is_paused(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    broken, good = submit(store), submit(store)
    telemetry = Faulty(broken)
    runs = HeldRuns(Evaluator(store, telemetry))
    assert runs.advance_due() == 2
    assert caplog.text.count(f"run {broken} cannot be evaluated and is paused: ") == 1
    assert run_of(store, good).state == RunnerState.RUNNING
    assert (run_of(store, broken).owner, run_of(store, broken).state) == ("", RunnerState.PAUSED)
    assert run_of(store, broken).reason.startswith("paused, since it cannot be evaluated: ")
    assert runs.advance_due() == 0, "not at every look"


def test_failures_are_told_with_their_reason(store: MemoryStore) -> None:
    begin(store)
    begin(store)
    told = Told()
    runs = runs_on(store, told=told)
    first, second = take(store), take(store)
    runs.deliver(TaskResult(first, error=ValueError("no")), TaskResult(second, {"m": "x"}))
    assert dict(told)[first.uuid] == "no"
    assert "return field 'm'" in str(dict(told)[second.uuid])
