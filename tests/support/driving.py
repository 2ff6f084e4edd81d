"""Running a case on the engine, with agents outside or handlers of this process, in an order that a seed decides."""

from __future__ import annotations

from random import Random

import pytest

from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.recovery.sweep import reclaim
from afl.runtime.types import WorkflowId
from support.completion import Pool
from support.judging import Trial
from support.outside import Outside

_MOST_IDLE = 100  # rounds in which nothing can be done, as when a rate lets nothing begin yet


def drive(trial: Trial, store: PersistenceAPI, random: Random, pace: Pace | None = None) -> ExecutionResult:
    """Start a run, or go on with the one that is there, with agents outside that finish in random order."""
    evaluator = Evaluator(store, pace=pace)
    reclaim(evaluator)
    root = root_of(store)
    if root is not None:
        result = evaluator.resume(root)
    else:
        node = dict(trial.program.workflow.ast, name=trial.case.workflow)
        result = evaluator.execute(node, trial.case.inputs, trial.program.compiled["program"])
    root, outside, idle = result.workflow_id, Outside(trial, evaluator, random), 0
    while runs := [] if broken(result) else unfinished(trial, store, root):
        done = 0
        for run in random.sample(runs, random.randint(1, len(runs))):
            done += outside.do_some(run)
            result = evaluator.resume(WorkflowId(run.workflow_id))
            assert not result.held_by
            if broken(result):
                break
        idle = 0 if done else idle + 1
        assert idle < _MOST_IDLE, "the runs pause, but there is nothing to do"
    return result if broken(result) else evaluator.resume(root)


def drive_locally(
    trial: Trial, store: PersistenceAPI, random: Random, pace: Pace | None = None
) -> ExecutionResult:
    """The same with handlers of this process, which finish in random order as well, and signals in between."""
    evaluator = Evaluator(store, pace=pace)
    root, outside = root_of(store), Outside(trial, evaluator, random)

    def deliver() -> None:
        for run in unfinished(trial, store) if random.random() < 0.3 else []:
            outside.deliver(run)

    with pytest.MonkeyPatch.context() as patch:
        Pool(random, beside=deliver).install(patch)
        concurrency = random.randint(1, 4)  # few, so that some tasks find no room at first
        with LocalRunner(evaluator, trial.handlers, concurrency=concurrency) as runner:
            result = runner.resume(root) if root else runner.run(trial.program, trial.case.inputs)
            root, idle = result.workflow_id, 0
            while runs := unfinished(trial, store, root):
                done = sum(outside.do_some(run, tasks=False) for run in runs)
                idle = 0 if done else idle + 1
                assert idle < _MOST_IDLE, "the runs pause, but there is nothing to do"
                paused = result.status == ExecutionStatus.PAUSED
                result = runner.resume(root if paused else WorkflowId(runs[0].workflow_id))
            return runner.resume(root)


def broken(result: ExecutionResult) -> bool:
    """Whether the evaluation failed, rather than the run."""
    return result.error is not None and not isinstance(result.error, StepFailure)


def root_of(store: PersistenceAPI) -> WorkflowId | None:
    """The run of the case, if it was started; the others are children."""
    return next((WorkflowId(each.workflow_id) for each in store.get_runs() if not each.parent_step), None)


def unfinished(trial: Trial, store: PersistenceAPI, root: WorkflowId | None = None) -> list[RunDefinition]:
    """The runs that will come to an end and have not."""
    if root is not None and not trial.starts_runs:
        stored = [store.get_run(root)]
    else:
        ids = [WorkflowId(each.workflow_id) for each in store.get_runs(limit=10_000)]
        stored = [store.get_run(each) for each in ids]
    runs = [run for run in stored if run is not None and not run.is_over]
    begun = [run for run in runs if run.state == RunnerState.RUNNING]
    return [run for run in runs if run not in begun or trial.verdict_of(run) is not None]
