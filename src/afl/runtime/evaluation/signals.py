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

_FEW = 8
_MORE = 8


def receive_signals(store: PersistenceAPI, program: Program, run: WorkflowId) -> int:
    """Give a run's signals that were kept to the tasks that wait for them; how many."""
    if not program.signals:
        return 0
    return sum(receive_named(store, program, run, name) for _, name in store.get_receivable(run))


def receive_named(store: PersistenceAPI, program: Program, run: WorkflowId, name: str) -> int:
    """As `receive_signals`, for one name. Several may do it at once: each signal and each task counts once.

    Of many tasks that wait only the oldest are read, and more if those do not take what there is.
    """
    received, most, is_left = 0, _FEW, True
    while is_left:
        tasks = store.get_signal_tasks(run, name, limit=most)
        is_left = len(tasks) == most
        given, refused = _give(store, program, run, name, tasks)
        received += given
        is_left = is_left and (refused or not tasks)
        most *= _MORE if tasks else 1
    return received


def _give(
    store: PersistenceAPI, program: Program, run: WorkflowId, name: str, tasks: list[TaskDefinition]
) -> tuple[int, bool]:
    """Give signals to these tasks, which leave the list; how many, and whether there are some that no task took."""
    received, refused, after = 0, False, 0
    while tasks and (page := store.get_signals(run, name, after=after, limit=len(tasks))):
        for signal in page:
            taken = _receive(store, program, signal, tasks)
            received, refused, after = received + taken, refused or not taken, signal.seq
    return received, refused


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
