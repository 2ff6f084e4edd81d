"""What any live process does for all: take up what nobody works on any more.

Everything here may be done by several processes at once, and again: each act is a compare-and-set.
"""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import replace

from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.ids import sortable_id
from afl.kernel.isolation import Isolation
from afl.runtime.entities import (
    POISONED_ERROR,
    LogDefinition,
    NoteType,
    TaskDefinition,
    TaskHold,
    TaskState,
    retried,
)
from afl.runtime.entities.timeouts import TIMEOUT_ERROR, timeout_text
from afl.runtime.evaluation.child_runs import settle_child_runs
from afl.runtime.evaluation.outcome import completed, failed
from afl.runtime.evaluation.signals import receive_named
from afl.runtime.evaluator import Evaluator
from afl.runtime.events import step_continue
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.program.built_in_steps import set_timer
from afl.runtime.program.policies import retry_delay
from afl.runtime.recovery.lost_attempts import what_was_lost
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.stores.masking import error_record
from afl.runtime.types import StepId, WorkflowId

_apart = Isolation(logging.getLogger(__name__), "the sweep")


def reclaim(evaluator: Evaluator, *, expired: bool = True) -> int:
    """Take away the work of dead owners and, if `expired`, of expired leases, and judge it; how much there was."""
    freed = evaluator.persistence.reclaim(expired=expired)
    judge(evaluator)
    escalate(evaluator.persistence)
    settle_child_runs(evaluator.persistence, evaluator.programs)
    return freed


def fire_timers(evaluator: Evaluator) -> int | None:
    """Let the steps go on whose timers are over; in how many milliseconds the next one is, None without any."""
    while (wait := evaluator.persistence.next_timer()) is not None and wait <= 0:
        if not _fire(evaluator, evaluator.persistence.due_timers()):
            return None  # others are at it, or the next sweep is
    return wait


def _fire(evaluator: Evaluator, timers: list[TaskDefinition]) -> bool:
    """Complete the steps of timers; whether that had any effect."""
    store = evaluator.persistence
    steps = {step.id: step for step in store.get_steps([StepId(task.step_id) for task in timers])}
    outcomes, unwanted = [], []
    for task in timers:
        with _apart.item(f"timer {task.uuid}"):
            step = steps.get(StepId(task.step_id))
            if step is not None and step.state == StepState.EVENT_TRANSMIT:
                program = evaluator.programs.of_run(step.workflow_id)
                outcomes.append(completed(program, step, task, {}))
            else:
                unwanted.append(replace(task, state=TaskState.IGNORED, updated=wall_ms()))
    crashpoint.reach("finish.before")
    fired = store.finish(outcomes) if outcomes else []
    fired += store.close_tasks(unwanted) if unwanted else []
    crashpoint.reach("finish.after")
    return any(fired)


def judge(evaluator: Evaluator) -> None:
    """Decide about tasks that too many died on, and about those whose time was up: again, or failed."""
    store = evaluator.persistence
    for hold in (TaskHold.POISONED, TaskHold.TIMEOUT):
        for task in store.find_tasks(TaskFilter(state=TaskState.PENDING, hold=hold)):
            with _apart.item(f"task {task.uuid}"):
                _judge(evaluator, task)


def _judge(evaluator: Evaluator, task: TaskDefinition) -> None:
    message, kind = _verdict(evaluator, task)
    delay = retry_delay(task, kind)
    if delay is not None:
        error = error_record(message, kind)
        evaluator.persistence.requeue(retried(task, error, delay), delay, error)
        _receive(evaluator, task)  # what came while it was not waiting
    else:
        _fail(evaluator, task, message, kind)


def _receive(evaluator: Evaluator, task: TaskDefinition) -> int:
    kind, _, name = task.via.partition(":")
    run = WorkflowId(task.workflow_id)
    return (
        receive_named(evaluator.persistence, evaluator.programs.of_run(run), run, name)
        if kind == "signal"
        else 0
    )


def _verdict(evaluator: Evaluator, task: TaskDefinition) -> tuple[str, str]:
    if task.hold == TaskHold.TIMEOUT:
        return timeout_text(task), TIMEOUT_ERROR
    last = evaluator.persistence.describe(task.last_owner)
    return f"given up: {what_was_lost(task)}, the last was {last}", POISONED_ERROR


def escalate(store: PersistenceAPI) -> int:
    """Ask the next one where a person has not answered in time; how many were asked."""
    asked = 0
    for task in store.get_unanswered():
        with _apart.item(f"the question of task {task.uuid}"):
            asked += _ask_next(store, task)
    return asked


def _ask_next(store: PersistenceAPI, task: TaskDefinition) -> bool:
    """The bridge of the task remembers who was asked before; the log of the run, when."""
    given = dict(task.bridge or {})
    to, first = given.pop("escalate_to", ""), task.via.partition(":")[2]
    minutes = given.pop("escalate_minutes", 0)
    task.bridge, task.patience_ms = {**given, "asked": [*given.get("asked", []), first]}, 0
    if not store.ask_next(task, f"human:{to}" if to else task.via) or not to:
        return False  # somebody was faster, or there is nobody else to ask
    note = f"{first} did not answer within {minutes:g} min; {to} is asked now"
    store.save_log(
        LogDefinition(
            uuid=sortable_id(),
            order=wall_ms() * 1000,
            runner_id=task.workflow_id,
            step_id=task.step_id,
            object_id=task.uuid,
            object_type="task",
            note_type=NoteType.WARNING,
            message=note,
            time=wall_ms(),
        )
    )
    return True


def _fail(evaluator: Evaluator, task: TaskDefinition, message: str, kind: str) -> None:
    store = evaluator.persistence
    step = store.get_step(StepId(task.step_id)) if task.step_id else None
    tracing.task_ended(task, message)
    if step is not None and store.finish([failed(step, task, message, kind)])[0]:
        return
    closed = copy(task)  # no step waits for it
    closed.state, closed.error, closed.updated = (
        TaskState.FAILED,
        error_record(message, kind),
        wall_ms(),
    )
    store.close_tasks([closed])


def continue_lost_steps(evaluator: Evaluator, limit: int = 100) -> int:
    """Find steps that wait for work which nobody will do any more, and help them on; how many."""
    lost = evaluator.persistence.get_lost_steps(limit)
    for step in lost:
        with _apart.item(f"step {step.id}"):
            _continue(evaluator, step)
    return len(lost)


def _continue(evaluator: Evaluator, step: StepDefinition) -> None:
    store = evaluator.persistence
    task = store.get_task_by_step(step.id)
    if step.is_requesting_state_change or (task is not None and task.state == TaskState.COMPLETED):
        store.save_event(
            step_continue(step.id, step.workflow_id)
        )  # the result is there; only the word was lost
    elif task is not None and task.state in (TaskState.FAILED, TaskState.CANCELED):
        error = task.error or {}
        store.finish([failed(step, None, str(error.get("message") or f"its task was {task.state}"))])
    else:
        store.save_task(_new_task(evaluator, step, task))


def _new_task(evaluator: Evaluator, step: StepDefinition, old: TaskDefinition | None) -> TaskDefinition:
    """A task in place of one that is gone, with the policies of that one if it is still there."""
    run = evaluator.persistence.get_run(step.workflow_id)
    assert run is not None  # a lost step is one of a run
    called = evaluator.programs.of_run(step.workflow_id).declarations.get(step.facet_name)
    params = {name: attribute.value for name, attribute in step.attributes.params.items()}
    new = TaskDefinition(
        uuid=sortable_id(),
        name=step.facet_name,
        runner_id=run.runner_id,
        workflow_id=step.workflow_id,
        flow_id=run.flow_id,
        step_id=step.id,
        created=wall_ms(),
        updated=wall_ms(),
        task_list_name=run.task_list,
        data=params if called is None else called.task_data(params),
    )
    set_timer(new)
    if old is not None:
        for policy in (
            "task_list_name",
            "priority",
            "timeout_ms",
            "retry",
            "concurrency_key",
            "concurrency_limit",
            "via",
            "bridge",
            "patience_ms",
        ):
            setattr(new, policy, getattr(old, policy))
    _hold(evaluator.persistence, new)
    return new


def _hold(store: PersistenceAPI, new: TaskDefinition) -> None:
    if new.hold == TaskHold.TIMER:
        new.deadline = new.deadline or store.now() + new.timeout_ms
    elif new.concurrency_key:
        new.hold = TaskHold.CONCURRENCY  # the next sweep finds it a place
    elif new.via:
        new.hold = TaskHold.ELSEWHERE
        new.deadline = store.now() + new.timeout_ms if new.timeout_ms else 0
        new.lease_until = store.now() + new.patience_ms if new.patience_ms else 0


def receive_lost_signals(evaluator: Evaluator, limit: int = 100) -> int:
    """Give signals to tasks that wait for them where whoever should have done it is gone; how many."""
    received = 0
    for run, name in evaluator.persistence.get_receivable(limit=limit):
        with _apart.item(f"signal {name} of run {run}"):
            received += receive_named(evaluator.persistence, evaluator.programs.of_run(run), run, name)
    return received
