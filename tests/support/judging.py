"""Running a case on the engine and holding its record against the model's verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from afl.language import compile_source
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.recovery.sweep import fire_timers
from afl.runtime.states import EventState
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import StepId, WorkflowId
from support.answers import answer_for, event_returns
from support.case import Case
from support.completion import Pool
from support.model import Model
from support.model_outcome import Verdict, Work
from support.model_values import Problem

TIGHT = Pace(commit_steps=1, commit_seconds=0, foreach_window=2, cached_steps=3)


class AgentError(Exception):
    """An agent's failure; named as the engine names the failure of an agent elsewhere."""


@dataclass
class Trial:
    """A case with its compiled program, its agents and the model's verdict."""

    case: Case
    program: Program
    answer: Callable[[str, dict[str, Any]], dict[str, Any]]
    verdict: Verdict

    @classmethod
    def of(cls, case: Case) -> Trial:
        compiled = compile_source(case.source).program
        answer = answer_for(event_returns(compiled))
        verdict = Model(compiled, answer).run(case.workflow, case.inputs)
        return cls(case, Program({"program": compiled, "workflow": case.workflow}), answer, verdict)

    @property
    def handlers(self) -> Handlers:
        """The agents as handlers of this process."""
        return Handlers.of(
            {
                facet: self._handler(facet)
                for facet in event_returns(self.program.compiled["program"])
                if not facet.startswith("sys.")
            }
        )

    def _handler(self, facet: str) -> Callable[..., dict[str, Any]]:
        def work(**payload: Any) -> dict[str, Any]:
            try:
                return self.answer(facet, payload)
            except Problem as problem:
                raise AgentError(problem.text) from problem

        return work


def drive(trial: Trial, store: PersistenceAPI, random: Random, pace: Pace | None = None) -> ExecutionResult:
    """Start a run, or go on with the one that is there, with agents outside that finish in random order."""
    store.reclaim()
    runs = store.get_runs()
    if runs:
        result = Evaluator(store, pace=pace).resume(WorkflowId(runs[0].workflow_id))
    else:
        node = dict(trial.program.workflow.ast, name=trial.case.workflow)
        result = Evaluator(store, pace=pace).execute(
            node, trial.case.inputs, trial.program.compiled["program"]
        )
    agents = Evaluator(store)
    while result.status == ExecutionStatus.PAUSED:
        assert not result.held_by
        assert work_a_little(trial, store, agents, result.workflow_id, random), (
            "the run pauses, but there is nothing to do"
        )
        result = Evaluator(store, pace=pace).resume(result.workflow_id)
    return result


def drive_locally(
    trial: Trial, store: PersistenceAPI, random: Random, pace: Pace | None = None
) -> ExecutionResult:
    """The same with handlers of this process, which finish in random order as well."""
    runs = store.get_runs()
    with pytest.MonkeyPatch.context() as patch:
        Pool(random).install(patch)
        concurrency = random.randint(1, 4)  # few, so that some tasks find no room at first
        with LocalRunner(Evaluator(store, pace=pace), trial.handlers, concurrency=concurrency) as runner:
            if runs:
                return runner.resume(WorkflowId(runs[0].workflow_id))
            return runner.run(trial.program, trial.case.inputs)


def work_a_little(
    trial: Trial, store: PersistenceAPI, agents: Evaluator, run_id: WorkflowId, random: Random
) -> int:
    """Some of the pending work is done, as workers do it (claimed) or as an operator does (not)."""
    pending = [t for t in store.get_tasks_by_workflow(run_id) if t.state == TaskState.PENDING]
    timers = [task for task in pending if task.hold == TaskHold.TIMER]
    if timers and (len(timers) == len(pending) or random.random() < 0.5):
        while fire_timers(agents) is not None:  # those of these workflows are short
            continue
        return len(timers)
    pending = [task for task in pending if task not in timers]
    if pending and random.random() < 0.5:
        names = sorted({task.name for task in pending})
        claimed = store.claim_tasks(names, limit=random.randint(1, len(pending)), workflow_id=run_id)
        store.start_tasks(claimed)
        random.shuffle(claimed)
        for task in claimed:
            assert finish(trial, agents, task, claim=task)
        return len(claimed)
    random.shuffle(pending)
    chosen = pending[: random.randint(1, max(1, len(pending)))]
    for task in chosen:
        assert finish(trial, agents, task)
    return len(chosen)


def finish(
    trial: Trial, evaluator: Evaluator, task: TaskDefinition, claim: TaskDefinition | None = None
) -> bool:
    """Do a task's work and say so, as an agent in another process would."""
    step_id = StepId(task.step_id)
    try:
        answer = trial.answer(task.name, task.params)
    except Problem as problem:
        return evaluator.fail_step(step_id, problem.text, task=claim)
    return evaluator.continue_step(step_id, answer, task=claim)


def check(trial: Trial, store: PersistenceAPI, result: ExecutionResult) -> None:
    """The result is the model's, and the record holds each piece of work exactly once."""
    verdict = trial.verdict
    check_result(verdict, result)
    run_id = result.workflow_id
    run = store.get_run(run_id)
    assert run is not None
    assert (run.owner, run.waiting, run.is_over) == ("", 0, True)
    assert store.get_open_steps(run_id) == []
    assert store.get_marks(run_id) == []
    steps = store.get_steps_by_workflow(run_id)
    assert max(Counter((s.statement_id, s.block_id, s.id) for s in steps).values()) == 1
    assert recorded_work(store, run_id) == Counter(verdict.work)
    written = [entry for entry in store.get_logs_by_runner(run_id) if not entry.attempt]
    assert len(written) == verdict.logs
    check_events(store, run_id)


def check_result(verdict: Verdict, result: ExecutionResult) -> None:
    if verdict.failure is None:
        assert result.status == ExecutionStatus.COMPLETED, result.error
        assert _shown(result.outputs) == _shown(verdict.outputs)
        return
    assert result.status == ExecutionStatus.ERROR
    assert isinstance(result.error, StepFailure), result.error
    assert (result.error.step, result.error.error_type) == (verdict.failure.step, verdict.failure.kind)
    assert verdict.failure.text in result.error.message


def _shown(outputs: dict[str, Any]) -> str:
    return json.dumps(unworded(outputs), sort_keys=True)


def unworded(value: Any) -> Any:
    """The value without the messages of collected failures, which the model does not know word by word."""
    if isinstance(value, list):
        return [unworded(each) for each in value]
    if isinstance(value, dict):
        kept = value.keys() - ({"message"} if {"error_type", "index", "element"} <= value.keys() else set())
        return {name: unworded(value[name]) for name in kept}
    return value


def recorded_work(store: PersistenceAPI, run_id: WorkflowId) -> Counter[Work]:
    """The finished tasks of a run, as the model writes them down."""
    tasks = store.get_tasks_by_workflow(run_id)
    assert {task.state for task in tasks} <= {TaskState.COMPLETED, TaskState.FAILED}
    return Counter(
        Work(
            paths.shown(task.step_id, run_id),
            task.name,
            json.dumps(task.params, sort_keys=True),
            failed=task.state == TaskState.FAILED,
        )
        for task in tasks
    )


def check_events(store: PersistenceAPI, run_id: WorkflowId) -> None:
    """One event per task, ended as its task ended."""
    tasks = {task.uuid: task for task in store.get_tasks_by_workflow(run_id)}
    events = [e for e in store.get_events_by_workflow(run_id) if e.event_type != STEP_CONTINUE]
    assert {event.id for event in events} == set(tasks)
    assert len({task.step_id for task in tasks.values()}) == len(tasks) == len(events)
    for event in events:
        done = tasks[event.id].state == TaskState.COMPLETED
        assert event.state == (EventState.COMPLETED if done else EventState.ERROR)
