"""What becomes of a handler's answer: the step's result, its failure, another attempt, or nothing any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy

from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.errors import CorruptRow
from afl.runtime import tracing
from afl.runtime.changes import Outcome
from afl.runtime.entities import TaskState
from afl.runtime.outcome import completed, failed
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.policies import retry_delay
from afl.runtime.program import Program
from afl.runtime.program_cache import ProgramCache
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.usage import BudgetExceeded
from afl.runtime.worker.task_in_hand import Done

Observe = Callable[[Done, str | None], None]


class Answers:
    """Judges answers; `observe` is told of each, and of what was wrong with it."""

    def __init__(self, store: PersistenceAPI, observe: Observe | None) -> None:
        self._store = store
        self._observe = observe

    def without_retries(self, group: Iterable[Done]) -> list[Done]:
        """Put back what is to be tried again, or what the run has no budget for; the others are left."""
        rest = []
        for each in group:
            if isinstance(each.error, BudgetExceeded):
                self._store.return_tasks([each.task])
                self._store.pause_run(WorkflowId(each.task.workflow_id), str(each.error))
            elif not self._retried(each):
                rest.append(each)
        return rest

    def outcome(self, program: Program, step: StepDefinition, each: Done) -> Outcome:
        """The answer as what is to be stored."""
        if each.error is not None:
            return failed(step, each.task, error_text(each.error), each.error_type)
        return completed(program, step, each.task, each.answer)

    def tell(self, each: Done, outcome: Outcome) -> None:
        """The outcome is stored."""
        closed = outcome.task or each.task
        problem = closed.error["message"] if closed.error else None
        tracing.task_ended(closed, problem)
        self._tell(each, problem)

    def ignore(self, each: Done) -> None:
        """Nobody waits for this one any more: its step moved on, its run ended, or somebody else has the task."""
        ignored = copy(each.task)
        ignored.state, ignored.updated = TaskState.IGNORED, wall_ms()
        self._store.close_tasks([ignored])
        self._tell(each, "its answer came too late: nobody waits for it any more")

    def leave(self, programs: ProgramCache, workflow_id: str, group: list[Done]) -> None:
        """The run is somebody else's, or gone: leave the answers for its holder, as marks."""
        steps = {step.id: step for step in self._store.get_steps([StepId(d.task.step_id) for d in group])}
        try:
            program = programs.of_run(WorkflowId(workflow_id))
        except CorruptRow as error:
            for each in group:
                self._fail(each, error)
            return
        known, outcomes = [], []
        for each in group:
            step = steps.get(StepId(each.task.step_id))
            if step is None or step.unreadable:
                self._fail(each, CorruptRow(step.unreadable if step else _missing(each.task.step_id)))
            else:
                known.append(each)
                outcomes.append(self.outcome(program, step, each))
        crashpoint.reach("finish.before")
        stored = self._store.finish(outcomes) if outcomes else []
        crashpoint.reach("finish.after")
        for each, outcome, kept in zip(known, outcomes, stored, strict=True):
            if kept:
                self.tell(each, outcome)
            else:
                self.ignore(each)

    def _fail(self, each: Done, error: CorruptRow) -> None:
        """The answer cannot be judged, or not be stored where it belongs."""
        failed_task = copy(each.task)
        failed_task.state, failed_task.updated = TaskState.FAILED, wall_ms()
        failed_task.error = {"message": str(error), "type": type(error).__name__}
        self._store.close_tasks([failed_task])
        self._tell(each, str(error))

    def _retried(self, each: Done) -> bool:
        if each.error is None:
            return False
        delay = retry_delay(each.task, each.error_type)
        if delay is None:
            return False
        error = {"message": error_text(each.error), "type": each.error_type}
        self._store.requeue(each.task, delay, error)
        self._tell(each, f"{error_text(each.error)}; next attempt in {delay} ms")
        return True

    def _tell(self, each: Done, problem: str | None) -> None:
        if self._observe is not None:
            self._observe(each, problem)


def _missing(step_id: str) -> str:
    return f"step {step_id} is missing from the store"


_LONGEST_TEXT = 100_000


def error_text(error: BaseException) -> str:
    """An error in words that can be stored, whatever the handler put into it."""
    try:
        text = str(error) or type(error).__name__
    except Exception:  # a handler's own error class may not even have words
        text = type(error).__name__
    return text[:_LONGEST_TEXT].encode("utf-8", "replace").decode()
