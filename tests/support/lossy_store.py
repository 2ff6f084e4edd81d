"""A store that loses a reply, and a run that is driven on it as a worker drives one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from afl.kernel.errors import AgentFlowError, StoreUnavailable
from afl.runtime.entities import RunDefinition, TaskDefinition
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.recovery.sweep import reclaim
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.worker.held_runs import HeldRuns
from afl.runtime.worker.results import TaskResult
from support.agents import store_results
from support.answers import event_returns
from support.driving import root_of, unfinished
from support.judging import AgentError, Trial
from support.model_values import Problem
from support.outside import Outside


class LossyStore(SqlStore):
    """As SqlStore. The commit number `lost` (counted from 1) fails, before or after it took effect."""

    commits = 0
    lost: int | None = None
    after = False

    def commit_all(self, batch: Sequence[IterationChanges]) -> list[AgentFlowError | None]:
        self.commits += 1
        if self.commits == self.lost and not self.after:
            raise StoreUnavailable("the connection was lost; nobody knows whether it was done")
        problems = super().commit_all(batch)
        if self.commits == self.lost:
            raise StoreUnavailable("the connection was lost; nobody knows whether it was done")
        return problems


def drive_worker(
    trial: Trial, store: PersistenceAPI, random: Random, pace: Pace | None = None
) -> ExecutionResult:
    """Start a run, or go on with the one that is there, as a worker does: answers come in batches, in any order."""
    evaluator = Evaluator(store, pace=pace)
    reclaim(evaluator)
    held, outside = HeldRuns(evaluator, None, lambda run: True), Outside(trial, evaluator, random)
    root = root_of(store) or evaluator.submit(trial.program, dict(trial.case.inputs))
    names = sorted(event_returns(trial.program.compiled["program"]))
    in_hand: list[TaskDefinition] = []
    runs = unfinished(trial, store, root)
    _evaluate(store, held, runs)
    for _ in range(10_000):
        claimed = []
        for run in runs:
            limit = random.randint(1, 6)
            claimed += store.claim_tasks(names, run.task_list, limit=limit, workflow_id=run.workflow_id)
        in_hand += claimed
        random.shuffle(in_hand)
        ready = random.randint(0 if claimed else min(1, len(in_hand)), len(in_hand))
        tasks, in_hand = in_hand[:ready], in_hand[ready:]
        try:
            store_results(evaluator, held, [answered(trial, task) for task in tasks])
        except StoreUnavailable:  # as after any other trouble, the worker tries again
            _give_back(store, held)
            held.store()
        if not (claimed or tasks):
            runs = unfinished(trial, store, root)
            if not runs:
                run = store.get_run(root)
                assert run is not None
                return evaluator.result(run, run.iterations)
            for run in runs:
                outside.do_some(run, tasks=False)
            if trial.starts_runs:  # the end of one may be stored without its parent being told
                reclaim(evaluator)
            _evaluate(store, held, runs)
    raise AssertionError("the run does not come to its end")


def _evaluate(store: PersistenceAPI, held: HeldRuns, runs: list[RunDefinition]) -> None:
    for run in runs:
        try:
            held.advance(run.workflow_id)
        except StoreUnavailable:
            _give_back(store, held)
            held.advance(run.workflow_id)


def _give_back(store: PersistenceAPI, held: HeldRuns) -> None:
    """Release the runs that became ours without our hearing of it; a worker's `StrayClaims` does so after a while."""
    for asked in held.take_unanswered():
        run = store.get_run(asked)
        if run is not None and run.owner == store.owner_id:
            store.release_run(run)


def answered(trial: Trial, task: TaskDefinition) -> TaskResult:
    """What the agent of a task answers."""
    try:
        return TaskResult(task, trial.answer(task.name, task.params))
    except Problem as problem:
        return TaskResult(task, error=AgentError(problem.text))
