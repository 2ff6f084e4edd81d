"""Runs in a worker's hands: answers delivered to them or left as marks, runs kept and let go, trouble put off."""

from __future__ import annotations

from typing import Any

import pytest
from support.agents import LONG, Recorder, begin, only_task, run_of, submit

from afl.kernel.errors import StoreUnavailable
from afl.runtime.changes import IterationChanges
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import StepId
from afl.runtime.worker.evaluations import Evaluations
from afl.runtime.worker.task_in_hand import Done

Told = list[tuple[str, str | None]]


def evaluations_on(
    store: PersistenceAPI, *, keeps: bool = False, expects: bool = False, told: Told | None = None
) -> Evaluations:
    def observe(done: Done, problem: str | None) -> None:
        if told is not None:
            told.append((done.task.uuid, problem))

    return Evaluations(
        Evaluator(store), (lambda task: True) if keeps else None, lambda workflow_id: expects, observe
    )


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
    evaluations = evaluations_on(recorder.api, told=told)
    task = take(store)
    evaluations.deliver([Done(task, {"m": 6})])
    assert recorder.count("commit_all") + recorder.count("commit") == 1
    assert [each.state for each in store.get_tasks_by_workflow(run)] == [
        TaskState.COMPLETED,
        TaskState.PENDING,
    ]
    assert told == [(task.uuid, None)]
    assert run_of(store, run).owner == ""


def test_tasks_born_here_are_handed_out_claimed(store: MemoryStore) -> None:
    run = submit(store, "ns.Twice")
    evaluations = evaluations_on(store, keeps=True)
    assert evaluations.evaluate_due() == 1
    (task,) = evaluations.born()
    assert evaluations.born() == []
    assert (task.state, task.owner, task.deliveries) == (TaskState.RUNNING, store.owner_id, 1)
    assert only_task(store, run).epoch == task.epoch
    evaluations.deliver([Done(task, {"m": 6})])
    (second,) = evaluations.born()
    evaluations.deliver([Done(second, {"m": 12})])
    assert run_of(store, run).outputs == {"m": 12}


def test_a_run_is_kept_while_answers_are_to_come_and_let_go_then(store: MemoryStore) -> None:
    run = submit(store, "ns.Many", {"list": [1, 2]})
    evaluations = evaluations_on(store, keeps=True, expects=True)
    evaluations.evaluate_due()
    kept = evaluations.busy
    assert run_of(store, run).owner == store.owner_id
    evaluations.let_go_all()
    assert (kept, evaluations.busy) == (True, False)
    assert run_of(store, run).owner == ""


def test_answers_for_a_run_that_another_holds_are_left_as_marks(store: MemoryStore) -> None:
    run = begin(store)
    task = take(store)
    held_by_another(store, run)
    told = Told()
    evaluations_on(store, told=told).deliver([Done(task, {"m": 6})])
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
    evaluations_on(store).deliver([Done(claimed, {"m": 100})])
    ignored = store.get_task("t9")
    assert ignored is not None
    assert (ignored.state, ignored.result) == (TaskState.IGNORED, None)
    assert first.step_id in {task.step_id for task in store.get_tasks_by_workflow(run)}


def test_an_answer_under_a_claim_that_is_over_changes_nothing(store: MemoryStore) -> None:
    run = begin(store)
    stale = take(store, owner="first")
    store.release_tasks("first", died=True)
    fresh = take(store, owner="second")
    evaluations_on(store).deliver([Done(stale, {"m": 100})])
    assert only_task(store, run).owner == "second"
    assert run_of(store, run).state == RunnerState.RUNNING
    evaluations_on(store).deliver([Done(fresh, {"m": 6})])
    assert run_of(store, run).outputs == {"m": 6}


def test_a_stale_answer_does_not_keep_the_others_from_being_stored(store: MemoryStore) -> None:
    run = begin(store, "ns.Many", {"list": [1, 2, 3]})
    tasks = store.claim_tasks(["Double"], limit=3, owner="me", lease_ms=LONG)
    assert store.return_tasks([tasks[1]]) == 1
    evaluations_on(store).deliver([Done(task, {"m": (task.data or {})["n"] * 2}) for task in tasks])
    states = sorted(task.state for task in store.get_tasks_by_workflow(run))
    assert states == [TaskState.COMPLETED, TaskState.COMPLETED, TaskState.PENDING]


def test_answers_are_kept_until_they_are_stored(store: MemoryStore) -> None:
    runs = [begin(store), begin(store)]
    tasks = [take(store), take(store)]
    recorder = Recorder(store)
    evaluations = evaluations_on(recorder.api)
    recorder.fail("commit_all", StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable):
        evaluations.deliver([Done(task, {"m": 6}) for task in tasks])
    kept = evaluations.undelivered
    evaluations.deliver([])
    assert (kept, evaluations.undelivered) == (True, False)
    assert [run_of(store, run).outputs for run in runs] == [{"m": 6}] * 2


def test_due_runs_that_another_holds_are_left_alone(store: MemoryStore) -> None:
    run = begin(store)
    held_by_another(store, run)
    assert not evaluations_on(store).evaluate(run)
    assert run_of(store, run).owner == "another"


def test_a_run_that_cannot_be_evaluated_is_paused(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    broken, good = submit(store), submit(store)
    telemetry = Faulty(broken)
    evaluations = Evaluations(Evaluator(store, telemetry), None, lambda workflow_id: False)
    assert evaluations.evaluate_due() == 2
    assert caplog.text.count(f"run {broken} cannot be evaluated and is paused: ") == 1
    assert run_of(store, good).state == RunnerState.RUNNING
    assert (run_of(store, broken).owner, run_of(store, broken).state) == ("", RunnerState.PAUSED)
    assert run_of(store, broken).reason.startswith("paused, since it cannot be evaluated: ")
    assert evaluations.evaluate_due() == 0, "not at every look"


def test_failures_are_told_with_their_reason(store: MemoryStore) -> None:
    begin(store)
    begin(store)
    told = Told()
    evaluations = evaluations_on(store, told=told)
    first, second = take(store), take(store)
    evaluations.deliver([Done(first, error=ValueError("no")), Done(second, {"m": "x"})])
    assert dict(told)[first.uuid] == "no"
    assert "return field 'm'" in str(dict(told)[second.uuid])
