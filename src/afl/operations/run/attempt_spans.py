"""When the work of a run's steps was queued and when it ran, attempt by attempt, without reading their data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from afl.runtime.entities import AttemptDefinition, AttemptOutcome, TaskHold, TaskState, in_order
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import TaskLine
from afl.runtime.types import WorkflowId


@dataclass(frozen=True)
class AttemptSpan:
    """One attempt. Times are of the wall clock; `started` is 0 while it is queued, `ended` while it runs."""

    number: int
    outcome: str
    queued: int
    started: int
    ended: int


def attempt_spans(store: PersistenceAPI, run: str) -> dict[str, list[AttemptSpan]]:
    """The attempts of a run by step, in their order; what waits to be claimed is one that has not started."""
    tasks = store.get_task_lines(WorkflowId(run))
    by_task: dict[str, list[AttemptDefinition]] = {}
    if any(task.deliveries > 1 or task.failures or task.state == TaskState.FAILED for task in tasks):
        for each in in_order(store.get_failed_attempts(run)):
            by_task.setdefault(each.task_id, []).append(each)
    found: dict[str, list[AttemptSpan]] = {}
    for task in tasks:
        ended = by_task.get(task.uuid, [])
        spans = [*map(_span, ended), *_own(task, ended)]
        found.setdefault(str(task.step_id), []).extend(spans)
    return found


def _span(attempt: AttemptDefinition) -> AttemptSpan:
    started = attempt.started or attempt.ended
    return AttemptSpan(attempt.number, attempt.outcome, attempt.queued, started, attempt.ended)


def _own(task: TaskLine, ended: Iterable[AttemptDefinition]) -> Iterable[AttemptSpan]:
    """The attempt that the task itself is the record of: one that goes on, waits, or ended with a result."""
    before = max((each.ended + (each.retry_ms or 0) for each in ended), default=0)
    number = max((each.number for each in ended), default=0) + 1
    queued = before or task.created
    if task.state == TaskState.RUNNING:
        yield AttemptSpan(number, AttemptOutcome.RUNNING, queued, task.started, 0)
    elif task.state in (TaskState.COMPLETED, TaskState.IGNORED):
        started = task.started or (task.updated if not task.via else queued)
        yield AttemptSpan(number, task.state, queued, started, task.updated)
    elif task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE:
        yield AttemptSpan(number, AttemptOutcome.RUNNING, queued, queued, 0)
    elif task.state == TaskState.PENDING:
        yield AttemptSpan(number, "queued", queued, 0, 0)
