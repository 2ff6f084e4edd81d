"""Steps that are read before they are needed: used as long as nothing newer can have been forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.agents import Recorder, begin, run_of

from afl.runtime.entities import RunnerState, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.pace import Pace
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.evaluations import Evaluations
from afl.runtime.worker.task_in_hand import Done

SOURCE = """
namespace ns {
    event facet Double(n: Long) => (m: Long)
    workflow Pairs(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
        a = Double(n)
        b = Double(n + 1)
        yield Pairs(all = [a.m, b.m])
    }
}
"""


class Desk:
    """A run of two elements with two tasks each, all of them claimed; nothing of it is in memory."""

    def __init__(self, store: MemoryStore, pace: Pace | None = None) -> None:
        self.store = store
        self.recorder = Recorder(store)
        self.run = begin(store, "ns.Pairs", {"list": [1, 10]}, SOURCE)
        self.evaluations = Evaluations(Evaluator(self.recorder.api, pace=pace), None, lambda run: True)
        self.evaluations.evaluate(self.run)
        claimed = store.claim_tasks(["Double"], limit=4)
        self.tasks = {task.step_id.partition("#")[2]: task for task in claimed}

    def deliver(self, *names: str) -> None:
        tasks = [self.tasks[name] for name in names]
        self.evaluations.deliver([Done(task, {"m": (task.data or {})["n"] * 2}) for task in tasks])

    def foresee(self, *names: str) -> None:
        self.evaluations.foresee([self.tasks[name] for name in names])

    def foresee_late(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
        """What is read ahead is told late: before, an answer changes the block of both, and more happens."""
        read = self.store.get_steps

        def late(step_ids: Any) -> Any:
            monkeypatch.undo()
            found = read(step_ids)
            self.deliver("0/a")
            meanwhile()
            return found

        monkeypatch.setattr(self.store, "get_steps", late)
        self.foresee("0/b")
        assert self.recorder.count("get_steps") > 1, "nothing of it is in memory"
        self.deliver("0/b", "1/a", "1/b")
        self.check()

    def check(self) -> None:
        run = run_of(self.store, self.run)
        assert (run.state, run.outputs) == (RunnerState.COMPLETED, {"all": [2, 4, 20, 22]})


@pytest.fixture
def desk(store: MemoryStore) -> Desk:
    return Desk(store)


def test_what_was_foreseen_is_not_read_again(desk: Desk) -> None:
    desk.foresee("0/a", "1/b")
    reads = desk.recorder.count("get_steps")
    assert reads > 0
    desk.deliver("0/a", "1/b")
    assert desk.recorder.count("get_steps") == reads
    desk.deliver("0/b", "1/a")
    desk.check()


def test_what_was_read_before_the_memory_was_emptied_is_read_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(store, Pace(cached_steps=0))  # it is emptied at each commit
    desk.foresee_late(monkeypatch, lambda: None)


def test_what_was_read_for_a_session_is_of_no_use_to_the_next(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_session() -> None:
        desk.evaluations.let_go(desk.run)
        desk.evaluations.evaluate(desk.run)

    desk.foresee_late(monkeypatch, another_session)


def test_what_is_in_memory_counts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.foresee_late(monkeypatch, lambda: None)


def test_a_step_that_somebody_else_answered_for_is_read_anew(desk: Desk) -> None:
    """By hand: its task is closed, and a mark left; our own answer comes too late."""
    desk.foresee("0/b")
    step_id = StepId(desk.tasks["0/b"].step_id)
    assert Evaluator(desk.store).continue_step(step_id, {"m": 4})
    desk.evaluations.heed_marks()
    desk.deliver("0/a", "1/a", "1/b")
    desk.check()


def test_tasks_of_runs_that_are_not_kept_foresee_nothing(desk: Desk) -> None:
    stepless = TaskDefinition("t", "ns.Double", "", "", "", "")
    reads = desk.recorder.count("get_steps")
    for tasks in (
        [],
        [stepless],
        [TaskDefinition("t", "ns.Double", "", WorkflowId("other"), "", "other/0/a")],
    ):
        desk.evaluations.foresee(tasks)
    assert desk.recorder.count("get_steps") == reads
