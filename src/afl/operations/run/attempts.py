"""The attempts of a run's steps: who made them, when, how they ended, and the traceback of those that failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from afl.operations.reason import subjects
from afl.runtime.entities import (
    AttemptDefinition,
    RunDefinition,
    RunnerState,
    RunOutcome,
    TaskDefinition,
    child_of,
    in_order,
    own_attempt,
)
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.types import StepId, WorkflowId


@dataclass(frozen=True)
class AttemptView:
    """One attempt. `outcome` is running, completed, ignored, failed, canceled, died, expired or released.

    Times are milliseconds of the wall clock, 0 if unknown; `retry_ms` is the delay after which it was tried again.
    `location` is the line of the handler's own code that failed: `/app/agents.py:12 in fetch`.
    """

    number: int
    outcome: str
    worker: str
    host: str
    pid: int
    queued: int
    started: int
    ended: int
    error_type: str
    error: str
    location: str
    traceback: str
    retry_ms: int | None
    step: str
    step_id: str
    task: str

    @property
    def has_failed(self) -> bool:
        """Whether it ended without a result."""
        return self.outcome not in ("running", "completed", "ignored")

    @property
    def waited_ms(self) -> int:
        """From when it could be claimed to the beginning of its handler."""
        return max(0, self.started - self.queued) if self.started and self.queued else 0

    @property
    def worked_ms(self) -> int:
        """How long its handler ran; 0 while it does."""
        return max(0, self.ended - self.started) if self.started and self.ended else 0


Words = Callable[[str], str]


def step_attempts(
    store: PersistenceAPI, tasks: Sequence[TaskDefinition], words: Words | None = None
) -> list[AttemptView]:
    """The attempts of the tasks of one step, the one that goes on at the end; `words` describes an owner."""
    found = [each for task in tasks for each in store.get_failed_attempts(task.workflow_id, task.uuid)]
    return attempt_views(found, tasks, words or store.describe)


def run_attempts(store: PersistenceAPI, run: str, words: Words | None = None) -> list[AttemptView]:
    """The attempts of a run's tasks of which one or more ended without a result."""
    failed = store.get_failed_attempts(run)
    if not failed:
        return []
    tasks = {each.task_id for each in failed}
    repeated = [task for task in store.get_tasks_by_workflow(WorkflowId(run)) if task.uuid in tasks]
    return attempt_views(failed, repeated, words or store.describe)


def attempt_views(
    ended: Iterable[AttemptDefinition], tasks: Iterable[TaskDefinition], words: Words
) -> list[AttemptView]:
    """Attempts that ended without a result, and behind those of its task each one that did not."""
    by_task: dict[str, list[AttemptDefinition]] = {}
    for each in ended:
        by_task.setdefault(each.task_id, []).append(each)
    for task in tasks:
        own = own_attempt(task)
        if own is not None:
            by_task.setdefault(task.uuid, []).append(own)
    return [_view(each, words) for attempts in by_task.values() for each in in_order(attempts)]


def failed_attempts(store: PersistenceAPI, run: RunDefinition | RunOutcome) -> list[AttemptView]:
    """The attempts that failed a run, in it or in a child run; none if that was no work of a handler."""
    if run.error is None or run.state != RunnerState.FAILED:
        return []
    failure = StepFailure.from_dict(run.error)
    try:
        step_id = subjects.find_step(store, f"{run.workflow_id}/{failure.step}").id
    except subjects.UnknownSubject:
        return []
    return cause_attempts(store, store.get_tasks_by_step(StepId(step_id)))


def cause_attempts(store: PersistenceAPI, tasks: Sequence[TaskDefinition]) -> list[AttemptView]:
    """The attempts of the tasks of a failed step; if a child run failed it, those that failed the child run."""
    child = store.get_run(WorkflowId(child_of(tasks[-1]))) if tasks and child_of(tasks[-1]) else None
    return (failed_attempts(store, child) if child is not None else []) or step_attempts(store, tasks)


def short_location(location: str) -> str:
    """A location without its folders: `agents.py:12 in fetch`."""
    file, _, line = location.rpartition(":")
    return f"{os.path.basename(file)}:{line}" if file else location


def last_failure(attempts: Sequence[AttemptView]) -> AttemptView | None:
    """The newest attempt that ended without a result."""
    return next((each for each in reversed(attempts) if each.has_failed), None)


def _view(attempt: AttemptDefinition, words: Words) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        outcome=attempt.outcome,
        worker=_worker(attempt, words),
        host=attempt.host,
        pid=attempt.pid,
        queued=attempt.queued,
        started=attempt.started,
        ended=attempt.ended,
        error_type=attempt.error_type,
        error=attempt.error,
        location=attempt.location,
        traceback=attempt.traceback,
        retry_ms=attempt.retry_ms,
        step=paths.shown(StepId(attempt.step_id), WorkflowId(attempt.workflow_id)) if attempt.step_id else "",
        step_id=attempt.step_id,
        task=attempt.task_id,
    )


def _worker(attempt: AttemptDefinition, words: Words) -> str:
    """Its server by its name, if that is known, else its process."""
    known = words(attempt.worker) if ":" not in attempt.worker else attempt.worker
    if known == attempt.worker and attempt.pid:
        return f"process {attempt.pid} on {attempt.host}"
    return known
