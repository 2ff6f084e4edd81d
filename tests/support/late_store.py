"""A store that stores what was launched only when somebody waits for it: the latest that any store may."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from random import Random
from typing import ClassVar

from afl.kernel.errors import StoreUnavailable
from afl.runtime.changes import IterationChanges
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.pace import Pace
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.sql_store import SqlStore
from afl.runtime.sql_store.store import ChangeRows
from afl.runtime.types import WorkflowId
from afl.runtime.worker.evaluations import Evaluations
from afl.runtime.worker.task_in_hand import Done
from support.answers import event_returns
from support.judging import AgentError, Trial
from support.model_values import Problem


class LateStore(SqlStore):
    """As SqlStore. The landing of the `lost` flight (counted from 1) fails, before or after it took effect."""

    launches: ClassVar[bool] = True
    flights = 0
    lost: int | None = None
    after = False

    meanwhile: Callable[[], None] | None = (
        None  # what another thread does while something is about to be stored
    )

    def commit(self, changes: IterationChanges) -> None:
        if self.meanwhile is not None:
            self.meanwhile()
        super().commit(changes)

    def launch(self, changes: IterationChanges) -> Callable[[], None]:
        if self.meanwhile is not None:
            self.meanwhile()
        self.flights += 1
        number, rows = (
            self.flights,
            ChangeRows(changes),
        )  # as they are now: the session goes on with the steps
        fixed = IterationChanges(
            run=copy(changes.run), new_run=changes.new_run, consumed_events=[*changes.consumed_events]
        )

        def land() -> None:
            if number == self.lost and not self.after:
                raise StoreUnavailable("the connection was lost; nobody knows whether it was done")
            self.ringing(lambda tx, rings: self._commit(tx, rings, fixed, rows))
            if number == self.lost:
                raise StoreUnavailable("the connection was lost; nobody knows whether it was done")

        return land


def drive_worker(
    trial: Trial, store: PersistenceAPI, random: Random, pace: Pace | None = None
) -> ExecutionResult:
    """Start a run, or go on with the one that is there, as a worker does: answers come in batches, in any order."""
    store.reclaim()
    evaluator = Evaluator(store, pace=pace)
    evaluations = Evaluations(evaluator, None, lambda run: True)
    runs = store.get_runs()
    run = (
        WorkflowId(runs[0].workflow_id) if runs else evaluator.submit(trial.program, dict(trial.case.inputs))
    )
    names = sorted(event_returns(trial.program.compiled["program"]))
    evaluations.evaluate(run)
    in_hand: list[TaskDefinition] = []

    def foresee(tasks: list[TaskDefinition]) -> None:
        if tasks and random.random() < 0.7:
            with suppress(StoreUnavailable):  # what could not be read ahead is read when it is needed
                evaluations.foresee(tasks)

    if isinstance(store, LateStore):
        store.meanwhile = lambda: foresee(in_hand)
    for _ in range(10_000):
        claimed = store.claim_tasks(names, limit=random.randint(1, 6), workflow_id=run)
        foresee(claimed)
        in_hand += claimed
        random.shuffle(in_hand)
        ready = random.randint(0 if claimed else min(1, len(in_hand)), len(in_hand))
        tasks, in_hand = in_hand[:ready], in_hand[ready:]
        try:
            evaluations.deliver([answered(trial, task) for task in tasks])
        except StoreUnavailable:  # as after any other trouble, the worker tries again
            evaluations.deliver([])
        if not (claimed or tasks):
            found = store.get_run(run)
            assert found is not None
            if found.is_over:
                return evaluator.result(found, found.iterations)
            evaluations.evaluate(run)
    raise AssertionError("the run does not come to its end")


def answered(trial: Trial, task: TaskDefinition) -> Done:
    """What the agent of a task answers."""
    try:
        return Done(task, trial.answer(task.name, task.params))
    except Problem as problem:
        return Done(task, error=AgentError(problem.text))
