"""Work that goes on elsewhere: what a bridge, or a person's answer, does with a task whose hold is "elsewhere".

Nobody holds such a task. Its id is the other side's own id, so whoever begins the other side may do so any number of
times; and how it ends is stored under the task's epoch, so an answer that comes late has no effect.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.runtime.entities import LogDefinition, TaskDefinition, TaskState, retried
from afl.runtime.evaluation.outcome import completed, failed
from afl.runtime.evaluator import Evaluator
from afl.runtime.monitoring import tracing
from afl.runtime.persistence.changes import Outcome
from afl.runtime.program.policies import retry_delay
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.stores.masking import error_record
from afl.runtime.types import StepId, WorkflowId


def elsewhere_id(task: TaskDefinition) -> str:
    """The other side's own id for the attempt that the task stands at."""
    return _attempt_id(task, task.failures)


def earlier_ids(task: TaskDefinition) -> list[str]:
    """The ids of the attempts before, newest first: one whose time was up may still be at work there."""
    return [_attempt_id(task, attempt) for attempt in reversed(range(task.failures))]


def _attempt_id(task: TaskDefinition, attempt: int) -> str:
    return f"{task.uuid}-{attempt}" if attempt else task.uuid


class Elsewhere:
    """Ends tasks that are done elsewhere, in the name of the other side."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence

    def complete(
        self, task: TaskDefinition, result: dict[str, Any] | None, log: LogDefinition | None = None
    ) -> bool:
        """The work is done; a result that does not fit the facet's return clause fails the step (ResultError).

        False, and nothing changes, if the task is no longer there as the caller read it. The entry for the run's log is
        stored with the rest.
        """
        step = self._waiting_step(task)
        if step is None:
            return False
        program = self._evaluator.programs.of_run(WorkflowId(task.workflow_id))
        return self._end(completed(program, step, task, result), log)

    def fail(
        self, task: TaskDefinition, message: str, kind: str = "AgentError", log: LogDefinition | None = None
    ) -> bool:
        """The work failed: another attempt if the workflow says so, else the step fails. False as `complete`."""
        delay = retry_delay(task, kind)
        if delay is not None:
            error = error_record(message, kind)
            queued = self._store.requeue(retried(task, error, delay), delay, error)
            if queued and log is not None:
                self._store.save_log(log)
            return queued
        step = self._waiting_step(task)
        return step is not None and self._end(failed(step, task, message, kind), log)

    def _end(self, outcome: Outcome, log: LogDefinition | None) -> bool:
        logs = outcome.logs if log is None else (*outcome.logs, log)
        crashpoint.reach("finish.before")
        done = self._store.finish([replace(outcome, elsewhere=True, logs=logs)])[0]
        crashpoint.reach("finish.after")
        if done and outcome.task is not None:
            tracing.task_ended(outcome.task, (outcome.task.error or {}).get("message"))
        return done

    def _waiting_step(self, task: TaskDefinition) -> StepDefinition | None:
        """The step of the task; if it does not wait any more, neither does anybody wait for the task."""
        step = self._store.get_step(StepId(task.step_id))
        if step is not None and step.state == StepState.EVENT_TRANSMIT:
            return step
        ignored = copy(task)
        ignored.owner, ignored.state, ignored.updated = "", TaskState.IGNORED, wall_ms()
        self._store.close_tasks([ignored])
        self._store.told(ignored)
        return None
