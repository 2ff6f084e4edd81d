"""Commits under way that come to nothing: no answer is lost with them, none is ignored for their sake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.answers import event_returns
from support.judging import Trial
from support.late_store import LateStore, answered
from support.lives import Lives
from support.telling_workflows import telling

from afl.kernel.database import Query
from afl.kernel.errors import StoreUnavailable
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.pace import Pace
from afl.runtime.types import WorkflowId
from afl.runtime.worker.core import Worker
from afl.runtime.worker.evaluations import Evaluations
from afl.runtime.worker.task_in_hand import Done
from afl.runtime.worker.terms import Terms
from afl.runtime.worker.thread_pool import ThreadPool

ELEMENTS = 12
TRIAL = Trial.of(
    telling(
        "andThen foreach r in $.list { a = lib.Echo(p = r) yield main.W(all = [a.u]) }",
        list=[*range(ELEMENTS)],
    )
)
NAMES = sorted(event_returns(TRIAL.program.compiled["program"]))


class Office:
    """A store that is late, evaluations on it, and what they told of answers."""

    def __init__(self) -> None:
        self._lives = Lives(kind=LateStore)
        store = self._lives.next()
        assert isinstance(store, LateStore)
        self.store = store
        self.evaluator = Evaluator(store, pace=Pace(launch_tasks=2))
        self.told: list[tuple[str, int, bool]] = []
        self.evaluations = Evaluations(self.evaluator, None, lambda run: True, self._hear)

    def _hear(self, done: Done, problem: str | None) -> None:
        self.told.append((done.task.step_id, done.task.epoch, problem is None))

    def begin(self) -> WorkflowId:
        run = self.evaluator.submit(TRIAL.program, dict(TRIAL.case.inputs))
        self.evaluations.evaluate(run)
        return run

    def claim(self, run: WorkflowId, limit: int) -> list[TaskDefinition]:
        return self.store.claim_tasks(NAMES, limit=limit, workflow_id=run)

    def deliver(self, tasks: Sequence[TaskDefinition]) -> None:
        self.evaluations.deliver([answered(TRIAL, task) for task in tasks])

    def finish(self, run: WorkflowId) -> None:
        while tasks := self.claim(run, 5):
            self.deliver(tasks)
        self.deliver([])
        self.evaluations.evaluate(run)
        found = self.store.get_run(run)
        assert found is not None
        assert (found.state, found.outputs["all"]) == (RunnerState.COMPLETED, [*range(ELEMENTS)])

    def sql(self, text: str) -> None:
        database = self._lives.current
        assert database is not None
        database.atomic(Query("test", sqlite=text, postgres=None))

    def take_away(self, task: TaskDefinition, **change: str) -> None:
        """Its lease ended, say."""
        also = "".join(f", {name} = '{value}'" for name, value in change.items())
        self.sql(
            f"update afl_tasks set state = 'pending', owner = '', epoch = epoch + 1{also} where uuid = '{task.uuid}'"
        )

    def states(self, tasks: Sequence[TaskDefinition]) -> Counter[str]:
        found = [self.store.get_task(task.uuid) for task in tasks]
        return Counter(task.state for task in found if task is not None)

    def close(self) -> None:
        self._lives.end()


@pytest.fixture
def office() -> Iterator[Office]:
    office = Office()
    yield office
    office.close()


def test_an_answer_is_not_ignored_for_what_is_not_stored_yet(office: Office) -> None:
    run = office.begin()
    tasks = office.claim(run, 4)
    office.take_away(tasks[0])
    (again,) = office.claim(run, 1)
    assert again.uuid == tasks[0].uuid
    office.deliver(tasks)
    assert office.evaluations.airborne
    office.deliver([again])  # the good one of that task; in memory its step has moved on
    office.deliver([])
    assert (again.step_id, again.epoch, True) in office.told
    assert office.states(tasks) == {TaskState.COMPLETED: 4}
    office.finish(run)


def test_what_flies_is_not_delivered_once_more(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two runs the second is somebody else's, and the store fails when its answer is left for that one."""
    mine, others = office.begin(), office.begin()
    office.evaluations.let_go(others)
    office.sql(
        "update afl_runs set owner = 'other', epoch = epoch + 1, lease_until = 9999999999999 "
        f"where workflow_id = '{others}'"
    )
    tasks, more, theirs = office.claim(mine, 6), office.claim(mine, 1), office.claim(others, 1)
    office.store.lost = 1

    def away(*_: Any) -> list[bool]:
        monkeypatch.undo()
        raise StoreUnavailable("away for a moment")

    monkeypatch.setattr(office.store, "finish", away)
    with pytest.raises(StoreUnavailable):
        office.deliver([*tasks, *theirs])
    assert office.evaluations.airborne
    with pytest.raises(StoreUnavailable):
        office.deliver(more)
    office.deliver([])
    office.deliver([])
    assert max(Counter(office.told).values()) == 1
    assert office.states([*tasks, *more, *theirs]) == {TaskState.COMPLETED: 8}
    office.finish(mine)


@pytest.mark.parametrize("same", [True, False], ids=["the same run", "another run"])
def test_a_run_whose_flight_was_refused_waits_for_its_next_commit(office: Office, same: bool) -> None:
    run, other = office.begin(), office.begin()
    tasks = office.claim(run, 4)
    office.take_away(tasks[0], hold="paused")
    office.deliver(tasks)
    for _ in range(5):  # others keep coming
        office.deliver(office.claim(run if same else other, 1))
    assert office.store.flights == 1
    assert office.states(tasks) == {TaskState.COMPLETED: 3, TaskState.PENDING: 1}
    office.sql("update afl_tasks set hold = ''")
    office.finish(run)
    office.finish(other)


class Interrupted(BaseException):
    """As an interrupt, which the test runner would take for one of its own."""


def airborne_worker(office: Office, pool: ThreadPool) -> tuple[Worker, WorkflowId, list[TaskDefinition]]:
    """A worker with a commit under way."""
    worker = Worker(
        office.evaluator, TRIAL.handlers, Terms(slots=6, evaluates=True, poll_seconds=600), lambda: pool
    )
    run = office.evaluator.submit(TRIAL.program, dict(TRIAL.case.inputs))
    worker.evaluations.evaluate(run)
    tasks = office.claim(run, 4)
    worker.evaluations.deliver([answered(TRIAL, task) for task in tasks])
    assert worker.evaluations.airborne
    return worker, run, tasks


def test_a_worker_that_ends_waits_for_what_is_under_way_first(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, _, tasks = airborne_worker(office, ThreadPool("end"))

    def away(*_: Any, **__: Any) -> int:
        raise StoreUnavailable("away for a moment")

    monkeypatch.setattr(office.store, "return_tasks", away)
    with pytest.raises(StoreUnavailable):
        worker.drain(0)
    assert not worker.evaluations.airborne
    assert office.states(tasks) == {TaskState.COMPLETED: 4}


def test_a_worker_that_is_interrupted_in_its_end_lets_go_of_its_runs(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise Interrupted

    monkeypatch.setattr(
        office.store, "launch", lambda changes: interrupt
    )  # whoever waits for it is interrupted
    worker, run, _ = airborne_worker(office, ThreadPool("interrupted"))
    with pytest.raises(Interrupted):
        worker.drain(5)
    worker.drain(0)
    found = office.store.get_run(run)
    assert found is not None
    assert (found.owner, found.state) == ("", RunnerState.RUNNING)
