"""Results of tasks: what a handler returned or raised, and what the evaluator said is to become of it.

Reported results are kept here until they are stored with their run, or without it where another evaluator has the run.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel import codec, crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.error_text import error_text
from afl.kernel.errors import CorruptRow, PayloadError
from afl.kernel.traceback_text import TracebackText
from afl.runtime.entities import TaskDefinition, TaskState, close_attempt, retried
from afl.runtime.entities.timeouts import TIMEOUT_ERROR
from afl.runtime.evaluation.outcome import completed, failed
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import Outcome
from afl.runtime.program.cache import ProgramCache
from afl.runtime.program.program import Program
from afl.runtime.step import StepDefinition
from afl.runtime.stores.masking import error_record
from afl.runtime.types import StepId, WorkflowId


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one attempt; `seconds` is how long its handler took, `ended` when it returned."""

    task: TaskDefinition
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    ended: int = 0
    raised_at: TracebackText | None = None

    @property
    def error_type(self) -> str:
        """The name of the error, as a workflow's Retry may list it."""
        if isinstance(self.error, HandlerFailure):
            return self.error.kind
        return TIMEOUT_ERROR if isinstance(self.error, HandlerTimeout) else type(self.error).__name__

    @property
    def error_bases(self) -> list[str]:
        """The names of the classes that the error derives from; a Retry may list them, too."""
        if self.error is None or isinstance(self.error, HandlerFailure | HandlerTimeout):
            return []
        return [each.__name__ for each in type(self.error).__mro__[1:-1]]

    @property
    def retry_after(self) -> float:
        """Before how many seconds are over the error asks not to be tried again: its attribute of that name."""
        asked = getattr(self.error, "retry_after", None)
        return asked if isinstance(asked, int | float) and asked > 0 else 0

    def recorded(self, task: TaskDefinition) -> TaskDefinition:
        """The task, with the record of its attempt completed by what is known of this result."""
        attempt = task.attempt
        if attempt is None:
            return task
        raised_at = self.raised_at or TracebackText("", "")
        task.attempt = replace(
            attempt,
            ended=self.ended or attempt.ended,
            traceback=raised_at.text,
            location=raised_at.location,
        )
        return task


class HandlerTimeout(Exception):
    """The time that the workflow gives a step is up."""


class HandlerFailure(Exception):
    """What a handler raised in a process whose exceptions are not here; `kind` is the name of its error."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def requeue(store: PersistenceAPI, result: TaskResult, delay_ms: int) -> bool:
    """Put a task that failed back for another attempt; False if it is no longer the caller's."""
    message = "" if result.error is None else error_text(result.error)
    record = error_record(message, result.error_type)
    return store.requeue(result.recorded(retried(result.task, record, delay_ms)), delay_ms, record)


def closed_task(result: TaskResult) -> TaskDefinition:
    """The task as its result leaves it, if no step waits for it, so that the result is its own."""
    task = copy(result.task)
    task.state, task.updated = TaskState.COMPLETED, wall_ms()
    if result.error is not None:
        task.error = error_record(error_text(result.error), result.error_type)
    else:
        value = result.value if isinstance(result.value, dict) else {"result": result.value}
        try:
            task.result = codec.plain_data(value, what=f"the result of {task.name}")
        except PayloadError as error:
            task.error = error_record(str(error), type(error).__name__)
    if task.error is not None:
        task.state = TaskState.FAILED
    close_attempt(task)
    return result.recorded(task)


Stored = Callable[[TaskResult, str | None], object]


@dataclass(frozen=True, slots=True)
class Report:
    """What `continue_step` (a value) or `fail_step` (a message and an error type) said about a result."""

    result: TaskResult
    value: Any = None
    failure: tuple[str, str] | None = None

    def outcome(self, program: Program, step: StepDefinition) -> Outcome:
        """The report as what is to be stored."""
        if self.failure is not None:
            outcome = failed(step, self.result.task, *self.failure)
        else:
            outcome = completed(program, step, self.result.task, self.value)
        if outcome.task is not None:
            self.result.recorded(outcome.task)
        return outcome


class ResultsWithoutRun:
    """Stores results whose run another evaluator has. `stored` is called with each result once it is stored."""

    def __init__(self, store: PersistenceAPI, programs: ProgramCache, stored: Stored) -> None:
        self._store = store
        self._programs = programs
        self._stored = stored

    def store(self, run: str, group: list[Report]) -> list[Report]:
        """Another evaluator has the run, or it is over or damaged: store the results without it, as marks.

        Those that had an effect; for the others nobody waits any more.
        """
        steps = {s.id: s for s in self._store.get_steps([StepId(r.result.task.step_id) for r in group])}
        try:
            program = self._programs.of_run(WorkflowId(run))
        except CorruptRow as error:
            return [report for report in group if self._fail_task(report, str(error))]
        kept: list[Report] = []
        known: list[Report] = []
        outcomes: list[Outcome] = []
        for report in group:
            step_id = StepId(report.result.task.step_id)
            step = steps.get(step_id)
            if step is None or step.unreadable:
                missing = f"step {step_id} is missing from the store"
                if self._fail_task(report, missing if step is None else step.unreadable):
                    kept.append(report)
            else:
                known.append(report)
                outcomes.append(report.outcome(program, step))
        crashpoint.reach("finish.before")
        finished = self._store.finish(outcomes) if outcomes else []
        crashpoint.reach("finish.after")
        for report, outcome, done in zip(known, outcomes, finished, strict=True):
            if done:
                self.tell(report, outcome)
                kept.append(report)
            else:
                self.ignore(report)
        return kept

    def _fail_task(self, report: Report, problem: str) -> bool:
        """The result cannot be checked, or there is no step that it belongs to; whether the task was still held."""
        task = copy(report.result.task)
        task.state, task.updated = TaskState.FAILED, wall_ms()
        task.error = error_record(problem, CorruptRow.__name__)
        (closed,) = self._store.close_tasks([task])
        self._stored(report.result, problem)
        return closed

    def ignore(self, report: Report) -> None:
        """Nobody waits for this result: its step moved on, its run ended, or another worker has the task."""
        task = copy(report.result.task)
        task.state, task.updated = TaskState.IGNORED, wall_ms()
        self._store.close_tasks([task])
        self._stored(report.result, "its result came too late: it was no longer needed")

    def tell(self, report: Report, outcome: Outcome) -> None:
        """The outcome is stored: call those who observe it."""
        closed = outcome.task or report.result.task
        problem = closed.error["message"] if closed.error else None
        tracing.task_ended(closed, problem)
        self._stored(report.result, problem)
