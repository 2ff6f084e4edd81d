"""How the tasks of remote workers end: by the same steps as those of a worker on the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.error_text import error_text, excerpt
from afl.kernel.traceback_text import MOST_CHARACTERS, TracebackText
from afl.operations.run.run_programs import program_cache
from afl.operations.work.remote_claims import Reported, fenced
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.policies import retry_delay
from afl.runtime.worker.results import (
    HandlerFailure,
    Report,
    ResultsWithoutRun,
    TaskResult,
    closed_task,
    requeue,
)

_HEAD = MOST_CHARACTERS // 4


def complete(store: PersistenceAPI, task: TaskDefinition, value: Any) -> Reported:
    """Store the result of a held task; FencedError if it is held no longer."""
    result = TaskResult(task, value, ended=wall_ms())
    return _stored(store, Report(result, value))


def fail(
    store: PersistenceAPI,
    task: TaskDefinition,
    message: str,
    kind: str,
    raised_at: TracebackText | None = None,
    *,
    bases: Sequence[str] = (),
    retryable: bool = True,
    retry_after: float = 0,
) -> Reported:
    """Store the failure of a held task, or put it back for another attempt; FencedError if it is held no longer."""
    failure = HandlerFailure(error_text(message) or kind, kind)
    result = TaskResult(task, error=failure, ended=wall_ms(), raised_at=raised_at and _stored_text(raised_at))
    delay = retry_delay(task, kind, bases, retry_after) if retryable else None
    if delay is None:
        return _stored(store, Report(result, failure=(str(failure), kind)))
    if not requeue(store, result, delay):
        raise fenced(store, task.uuid, task.epoch)
    return Reported(task.uuid, TaskState.PENDING, str(failure), delay)


def _stored_text(raised_at: TracebackText) -> TracebackText:
    """As far as it may be stored: cut, and without secrets."""
    text = excerpt(raised_at.text, _HEAD, MOST_CHARACTERS - _HEAD)
    return TracebackText(text, error_text(raised_at.location))


def _stored(store: PersistenceAPI, report: Report) -> Reported:
    task, problems = report.result.task, [""]

    def told(result: TaskResult, problem: str | None) -> None:
        problems.append(problem or "")

    if task.step_id:
        storing = ResultsWithoutRun(store, program_cache(store), told)
        done = bool(storing.store(task.workflow_id, [report]))
    else:
        closed = closed_task(report.result)
        (done,) = store.close_tasks([closed])
        told(report.result, (closed.error or {}).get("message"))
        if done:
            tracing.task_ended(closed, problems[-1] or None)
    if not done:
        raise fenced(store, task.uuid, task.epoch)
    return Reported(task.uuid, TaskState.FAILED if problems[-1] else TaskState.COMPLETED, problems[-1])
