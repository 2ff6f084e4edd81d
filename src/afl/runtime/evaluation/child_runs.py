"""Between a child run and its parent: the end of the child goes up to the step that waits, the parent's end goes down.

Both ends are stored before anybody acts on them, so whoever ends a run does this after its commit, and every sweep
again: each act is a compare-and-set.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.isolation import Isolation
from afl.runtime.entities import (
    ParentClose,
    RunDefinition,
    RunnerState,
    TaskDefinition,
    TaskState,
    child_of,
    child_via,
)
from afl.runtime.evaluation.outcome import completed, failed
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import Outcome
from afl.runtime.program.cache import ProgramCache
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

CANCELED_ERROR = "ChildCanceled"  # of a step whose child run was canceled

_apart = Isolation(logging.getLogger(__name__), "the sweep")


def settle_child_runs(store: PersistenceAPI, programs: ProgramCache) -> int:
    """Tell parents of children that ended, and cancel children that nobody wants any more; how much there was."""
    settled = 0
    while done := _settle_some(store, programs):
        settled += done
    return settled


def unwanted_tasks(store: PersistenceAPI, workflow_id: WorkflowId) -> list[TaskDefinition]:
    """The tasks of child runs that a run waits for, canceled, for the commit of a run that ends all the same."""
    waiting = [
        task
        for task in store.get_tasks_by_workflow(workflow_id)
        if child_of(task) and task.state == TaskState.PENDING
    ]
    return [replace(task, state=TaskState.CANCELED, updated=wall_ms()) for task in waiting]


def _settle_some(store: PersistenceAPI, programs: ProgramCache) -> int:
    done = 0
    for task in store.ended_elsewhere("run"):
        with _apart.item(f"child run {child_of(task)}"):
            _settle(store, programs, child_of(task))
            done += store.told(task)
    for child in store.get_unsettled_children():
        with _apart.item(f"child run {child}"):
            done += _settle(store, programs, child)
    return done


def _settle(store: PersistenceAPI, programs: ProgramCache, child_id: str) -> bool:
    child = store.get_run(WorkflowId(child_id))
    if child is None or not child.parent_step:
        return False
    task = _waiting_task(store, child)
    if child.is_over:
        return not child.parent_told and (_tell(store, programs, child, task) or store.parent_told(child))
    if task is not None or _is_wanted(store, child):
        return False
    if child.on_parent_close != ParentClose.CANCEL:  # it goes on, and nobody waits for it
        return not child.parent_told and store.parent_told(child)
    return store.cancel_run(WorkflowId(child_id), _closed(store, child))


def _waiting_task(store: PersistenceAPI, child: RunDefinition) -> TaskDefinition | None:
    """The task of the step that waits for a child."""
    task = store.get_task_by_step(StepId(child.parent_step))
    waits = task is not None and task.state == TaskState.PENDING and task.via == child_via(child.workflow_id)
    return task if waits else None


def _is_wanted(store: PersistenceAPI, child: RunDefinition) -> bool:
    """Whether a child that no step waits for may go on: it was not to be waited for, and its parent goes on."""
    parent = store.get_run(WorkflowId(child.parent)) if child.parent_told else None
    return parent is not None and not parent.is_over


def _closed(store: PersistenceAPI, child: RunDefinition) -> str:
    """Why nobody wants a child any more, in words."""
    parent = store.get_run(WorkflowId(child.parent))
    if parent is None:
        return f"its parent run {child.parent} was removed"
    stands = f"is {parent.state}" if parent.is_over else "does not wait any more"
    return f"its parent run {child.parent} {stands}"


def _tell(
    store: PersistenceAPI, programs: ProgramCache, child: RunDefinition, task: TaskDefinition | None
) -> bool:
    """Complete or fail the step that waits for a child that ended; False if none does."""
    step = store.get_step(StepId(child.parent_step)) if task is not None else None
    if task is None or step is None or step.state != StepState.EVENT_TRANSMIT:
        return False
    outcome = replace(_outcome(programs, child, task, step), elsewhere=True, child=child.workflow_id)
    crashpoint.reach("finish.before")
    done = store.finish([outcome])[0]
    crashpoint.reach("finish.after")
    if done and outcome.task is not None:
        tracing.task_ended(outcome.task, (outcome.task.error or {}).get("message"))
    return done


def _outcome(
    programs: ProgramCache, child: RunDefinition, task: TaskDefinition, step: StepDefinition
) -> Outcome:
    name = f"child run {child.workflow_id}"
    if child.state == RunnerState.COMPLETED:
        return completed(programs.of_run(step.workflow_id), step, task, child.outputs)
    if child.state == RunnerState.CANCELED:
        return failed(step, task, f"{name} was canceled: {child.reason}", CANCELED_ERROR)
    error = child.error or {}
    message = f"{name} failed: {error.get('message') or 'no error was recorded'}"
    return failed(step, task, message, str(error.get("error_type") or "AgentError"))
