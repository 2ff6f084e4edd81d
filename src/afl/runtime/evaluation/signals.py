"""Signals reach tasks: each goes to the oldest task of its run that waits for its name and whose returns it fits."""

from __future__ import annotations

from dataclasses import replace

from afl.kernel import crashpoint
from afl.kernel.errors import PayloadError
from afl.runtime.entities import SignalDefinition, TaskDefinition
from afl.runtime.errors import ResultError
from afl.runtime.evaluation.outcome import check_result, completed, failed
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import Outcome
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId


def receive_signals(store: PersistenceAPI, program: Program, run: WorkflowId) -> int:
    """Give a run's signals that were kept to the tasks that wait for them; how many."""
    if not program.signals:
        return 0
    return sum(receive_named(store, program, run, name) for _, name in store.get_receivable(run))


def receive_named(store: PersistenceAPI, program: Program, run: WorkflowId, name: str) -> int:
    """As `receive_signals`, for one name. Several may do it at once: each signal and each task counts once."""
    received, after = 0, 0
    tasks = store.get_signal_tasks(run, name)
    while tasks and (page := store.get_signals(run, name, after=after, limit=len(tasks))):
        for signal in page:
            received += _receive(store, program, signal, tasks)
            after = signal.seq
    return received


def _receive(
    store: PersistenceAPI, program: Program, signal: SignalDefinition, tasks: list[TaskDefinition]
) -> bool:
    """Give a signal to the first task that takes it. Tasks that turn out to be over are removed from the list."""
    for task in [each for each in tasks if fits(program, each.name, signal)]:
        if _finish(store, program, signal, task):
            tasks.remove(task)
            return True
        now = store.get_signal(WorkflowId(signal.workflow_id), signal.id)
        if now is None or now.task_id:
            return False  # somebody was faster
        tasks.remove(task)
    return False


def fits(program: Program, facet: str, signal: SignalDefinition) -> bool:
    """Whether a facet can return the value of a signal."""
    try:
        check_result(program, facet, signal.value)
    except (ResultError, PayloadError):
        return False
    return not signal.unreadable


def _finish(store: PersistenceAPI, program: Program, signal: SignalDefinition, task: TaskDefinition) -> bool:
    step = store.get_step(StepId(task.step_id))
    if step is None or step.unreadable or step.state != StepState.EVENT_TRANSMIT:
        return False
    try:
        return _store(store, completed(program, step, task, signal.value), signal)
    except PayloadError as error:  # with what the step has besides it is too large
        return _store(store, failed(step, task, str(error), type(error).__name__), signal)


def _store(store: PersistenceAPI, outcome: Outcome, signal: SignalDefinition) -> bool:
    crashpoint.reach("finish.before")
    done = store.finish([replace(outcome, elsewhere=True, signal_id=signal.id)])[0]
    crashpoint.reach("finish.after")
    if done and outcome.task is not None:
        tracing.task_ended(outcome.task, (outcome.task.error or {}).get("message"))
    return done
