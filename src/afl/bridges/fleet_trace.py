"""A run of the fleet as a part of the trace of the run that asked for it, told once it is over."""

from __future__ import annotations

from afl.bridges.bridge import Errand
from afl.fleet.answers import RunDetail
from afl.fleet.statuses import Status
from afl.kernel import telemetry
from afl.kernel.telemetry import Ended
from afl.kernel.trace_ids import traceparent_of
from afl.runtime.monitoring.tracing import traceparent_of_task


def tell(errand: Errand, detail: RunDetail) -> None:
    """The run and the last attempt of each of its tasks that began."""
    if not telemetry.is_tracing():
        return
    run, workflow_id = detail.run, errand.task.workflow_id
    own = traceparent_of(workflow_id, f"fleet {run.run_id}")  # its id alone is that of the task
    ended = run.ended_at or run.created_at
    about: dict[str, telemetry.Attribute] = {
        "afl.fleet.run": run.run_id,
        "afl.fleet.workflow": run.workflow_id,
    }
    problem = "" if run.status is Status.COMPLETED else run.error or run.status.value
    begun = run.started_at or run.created_at
    place = {**about, "afl.fleet.agent": run.agent_id, "afl.attempt": run.attempt}
    telemetry.report(
        Ended("afl.fleet.run", own, traceparent_of_task(errand.task), begun, ended, problem, place)
    )
    for task in detail.tasks:
        if task.started_at is not None:
            mine = traceparent_of(workflow_id, task.task_instance_id)
            problem = "" if task.status is Status.COMPLETED else task.error or task.status.value
            named = {**about, "afl.fleet.task": task.task_id, "afl.attempt": task.attempt}
            end = task.ended_at or ended
            telemetry.report(Ended("afl.fleet.task", mine, own, task.started_at, end, problem, named))
