"""What a run looks like as a trace: the run, its evaluations, its tasks, and in each the handlers that worked on it.

Runs and tasks are known by ids that every process can work out, so that whatever belongs to them finds its place in
the one trace of the run, wherever it happens. With tracing off all of this costs next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from afl.kernel import telemetry
from afl.kernel.log import Working, working_on
from afl.kernel.telemetry import UNOBSERVED, Ended, Span, trace_id_of, traceparent_of
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition


def traceparent_of_task(task: TaskDefinition) -> str:
    """What work that goes on elsewhere is given, so that it belongs to the task. A task of no run has its own trace."""
    return traceparent_of(task.workflow_id or task.uuid, task.uuid)


def handling(task: TaskDefinition) -> AbstractContextManager[object]:
    """While a handler works on a task: a span if there is tracing, and the ids for the log."""
    return _traced(task) if telemetry.is_tracing() else _Handling(task)


class _Handling(Working):
    __slots__ = ("_task",)

    def __init__(self, task: TaskDefinition) -> None:
        self._task = task

    def ids(self) -> dict[str, str]:
        return {"run": self._task.workflow_id, "step": self._task.step_id, "task": self._task.uuid}


@contextmanager
def _traced(task: TaskDefinition) -> Iterator[Span]:
    span = telemetry.span(
        "afl.handler",
        traceparent_of_task(task),
        **_about(task) | {"afl.attempt": task.deliveries, "afl.owner": task.owner},
    )
    trace_id = trace_id_of(task.workflow_id or task.uuid)
    with _Handling(task), working_on(trace_id=trace_id), span as this:
        yield this


def evaluating(run: RunDefinition) -> AbstractContextManager[object]:
    """While a run is evaluated."""
    if not telemetry.is_tracing() and not telemetry.is_metering():
        return UNOBSERVED
    return _evaluated(run)


@contextmanager
def _evaluated(run: RunDefinition) -> Iterator[Span]:
    begun = time.monotonic()
    about = {"afl.run": run.workflow_id, "afl.workflow": run.workflow_name}
    with telemetry.span("afl.evaluation", traceparent_of(run.workflow_id), **about) as this:
        yield this
    telemetry.record("afl.evaluation.seconds", time.monotonic() - begun)


def task_ended(task: TaskDefinition, problem: str | None = None) -> None:
    """The work of a task is done, well or not, and stored."""
    if telemetry.is_tracing():
        within = traceparent_of(task.workflow_id) if task.workflow_id else ""
        about = _about(task) | {
            "afl.attempts": task.deliveries,
            "afl.list": task.task_list_name,
            "afl.owner": task.owner,
        }
        own = traceparent_of_task(task)
        telemetry.report(Ended("afl.task", own, within, task.created, task.updated, problem or "", about))


def run_ended(run: RunDefinition) -> None:
    """A run is over, and that is stored."""
    telemetry.count("afl.runs.ended", state=run.state)
    if telemetry.is_tracing():
        problem = str((run.error or {}).get("message") or run.state)
        telemetry.report(
            Ended(
                "afl.run",
                traceparent_of(run.workflow_id),
                "",
                run.created,
                run.ended,
                "" if run.state == RunnerState.COMPLETED else problem,
                {
                    "afl.run": run.workflow_id,
                    "afl.workflow": run.workflow_name,
                    "afl.state": run.state,
                    "afl.iterations": run.iterations,
                },
            )
        )


def _about(task: TaskDefinition) -> dict[str, telemetry.Attribute]:
    return {
        "afl.run": task.workflow_id,
        "afl.step": task.step_id,
        "afl.task": task.uuid,
        "afl.facet": task.name,
    }
