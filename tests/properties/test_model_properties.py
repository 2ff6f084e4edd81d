"""Random programs in random orders: the engine comes to what the model says, and records each piece of work once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.case import Case
from support.driving import drive, drive_locally
from support.judging import TIGHT, Trial, check
from support.kept_memory import kept_memory_store
from support.properties import tries
from support.random_workflows import cases

from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.step import StepDefinition
from afl.runtime.task_handlers.handler import Handlers

seeds = st.integers(0, 2**32)
paces = st.sampled_from([Pace(), TIGHT])


@tries(100, deep=300)
@given(cases(), seeds, paces)
def test_agents_outside_may_finish_in_any_order(case: Case, seed: int, pace: Pace) -> None:
    trial = Trial.of(case)
    with kept_memory_store() as store:
        check(trial, store, drive(trial, store, Random(seed), pace))


@tries(70, deep=200)
@given(cases(), seeds, paces)
def test_handlers_of_a_local_run_may_finish_in_any_order(case: Case, seed: int, pace: Pace) -> None:
    trial = Trial.of(case)
    with kept_memory_store() as store:
        check(trial, store, drive_locally(trial, store, Random(seed), pace))


@tries(25)
@given(cases(size=20), seeds)
def test_a_sqlite_file_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory, case: Case, seed: int
) -> None:
    trial = Trial.of(case)
    folder: Path = tmp_path_factory.mktemp("run")
    store = SqliteStore(f"sqlite:///{folder / 'afl.db'}")
    try:
        check(trial, store, drive(trial, store, Random(seed), TIGHT))
    finally:
        store.close()


class Releases:
    """Lets handlers that run at the same time end one by one, in a given order."""

    def __init__(self, order: list[int]) -> None:
        self._gates = {each: Event() for each in order}
        self._order = iter(order)
        self.ended: list[int] = []

    def work(self, n: int) -> dict[str, int]:
        self._gates[n].wait()
        return {"m": n * n}

    def began(self, workflow_id: str, workflow_name: str) -> None:
        self._gates[next(self._order)].set()

    def stored(self, steps: list[StepDefinition]) -> None:
        pass

    def task_started(self, task: TaskDefinition) -> None:
        pass

    def task_ended(self, task: TaskDefinition, error: str | None) -> None:
        self.ended.append((task.data or {})["n"])
        following = next(self._order, None)
        if following is not None:
            self._gates[following].set()

    def task_retried(self, task: TaskDefinition, error: str, delay_ms: int) -> None:
        pass


FAN_OUT = """
event facet Square(n: Long) => (m: Long)
workflow Squares(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
    one = Square(n = n)
    yield Squares(all = [one.m])
}
"""


@tries(20)
@given(st.permutations(range(6)))
def test_threads_that_end_in_any_order_leave_the_results_in_element_order(order: list[int]) -> None:
    trial = Trial.of(Case(FAN_OUT, {"list": []}, "Squares"))
    releases = Releases(order)
    with kept_memory_store() as store:
        runner = LocalRunner(Evaluator(store), Handlers.of({"Square": releases.work}), observer=releases)
        with runner:
            result = runner.run(trial.program, {"list": list(range(6))})
        assert result.outputs == {"all": [0, 1, 4, 9, 16, 25]}
        assert releases.ended == order
        states = Counter(task.state for task in store.get_tasks_by_workflow(result.workflow_id))
        assert states == {"completed": 6}
