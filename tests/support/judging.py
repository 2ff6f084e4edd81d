"""A case with the model's verdict on it, and holding the record of a run against that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afl.language import compile_source
from afl.runtime.entities import RunDefinition, RunnerState, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import ExecutionResult, ExecutionStatus
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.states import EventState
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId
from support.answers import answer_for, event_returns
from support.case import Case
from support.model import Model
from support.model_outcome import Child, Signal, Verdict, Work
from support.model_values import Problem

TIGHT = Pace(commit_steps=1, commit_seconds=0, foreach_window=2, cached_steps=3)


def _called(workflow: str, inputs: dict[str, Any]) -> str:
    return f"{workflow}({json.dumps(inputs, sort_keys=True)})"


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

    @cached_property
    def _children(self) -> dict[str, Verdict | None]:
        """By workflow and inputs: what a child run comes to depends on nothing else."""
        found: dict[str, Verdict | None] = {}
        above = [self.verdict]
        while above:
            for child in above.pop().children:
                found[_called(child.workflow, child.inputs)] = child.verdict
                above += [child.verdict] if child.verdict is not None else []
        return found

    @property
    def starts_runs(self) -> bool:
        return bool(self.verdict.children)

    def verdict_of(self, run: RunDefinition) -> Verdict | None:
        """What the run, or a child run of it, must come to; None if it never ends by itself."""
        return self._children[_called(run.workflow_name, run.inputs)] if run.parent_step else self.verdict

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


def check(trial: Trial, store: PersistenceAPI, result: ExecutionResult) -> None:
    """The result is the model's, and the record holds each run and each piece of work exactly once."""
    check_result(trial.verdict, result)
    runs = [(result.workflow_id, trial.verdict)]
    for run_id, verdict in runs:  # it grows
        check_record(verdict, store, run_id)
        runs += check_children(verdict, store, run_id)
    assert sum(not run.parent_step for run in store.get_runs(limit=10_000)) == 1


def check_record(verdict: Verdict, store: PersistenceAPI, run_id: WorkflowId) -> None:
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
    check_signals(verdict, store, run_id)
    published = {each.name: each.value for each in store.get_published(run_id)}
    assert published.keys() == verdict.published.keys()
    assert all(value in verdict.published[name] for name, value in published.items())


def check_signals(verdict: Verdict, store: PersistenceAPI, run_id: WorkflowId) -> None:
    """As many of each name were received as steps waited for, each by a task of its own."""
    sent = [store.get_signal(run_id, id) for id in signal_ids(verdict)]
    received = [signal for signal in sent if signal is not None and signal.task_id]
    assert Counter(each.name for each in received) == Counter(each.name for each in verdict.signals)
    assert len({each.task_id for each in received}) == len(received)


def signal_ids(verdict: Verdict) -> dict[str, Signal]:
    """The signals to a run by their ids: those that its steps wait for, and one more of each name."""
    wanted = {f"{number}": each for number, each in enumerate(verdict.signals)}
    return wanted | {f"one more {each.name}": each for each in verdict.signals}


def check_children(
    verdict: Verdict, store: PersistenceAPI, run_id: WorkflowId
) -> list[tuple[WorkflowId, Verdict]]:
    """The child runs are those that the model expects, and ended so; those whose records are still to be checked."""
    runs = store.get_children(run_id, limit=1000) if verdict.children else []
    started = {child.workflow_id: store.get_run(WorkflowId(child.workflow_id)) for child in runs}
    to_check = []
    for child in verdict.children:
        run = next(run for run in started.values() if run is not None and _is_it(run, child))
        del started[run.workflow_id]
        assert child.run_id in ("", run.workflow_id)
        if run.state == RunnerState.CANCELED:
            assert not child.detached and (child.verdict is None or not child.awaited), run.reason
        elif child.verdict is None:
            assert child.detached and not run.is_over
        else:
            check_end(child.verdict, run)
            to_check.append((WorkflowId(run.workflow_id), child.verdict))
    assert not started
    return to_check


def _is_it(run: RunDefinition, child: Child) -> bool:
    place = paths.shown(run.parent_step, WorkflowId(run.parent)), run.workflow_name, run.inputs
    return (
        place == (child.step, child.workflow, child.inputs)
        and (run.on_parent_close == "detach") is child.detached
    )


def check_end(verdict: Verdict, run: RunDefinition) -> None:
    """A child run ended as it had to."""
    if verdict.failure is None:
        assert (run.state, run.error) == (RunnerState.COMPLETED, None)
        assert _shown(run.outputs) == _shown(verdict.outputs)
        return
    assert run.state == RunnerState.FAILED
    error = run.error or {}
    assert (error["step"], error["error_type"]) == (verdict.failure.step, verdict.failure.kind)
    assert verdict.failure.text in error["message"]


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
