"""Acting on runs: pause, unpause, cancel, retry, give a step its result, remove old ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from afl.kernel import telemetry
from afl.kernel.clock import wall_ms
from afl.kernel.errors import CapabilityError, InputError, StateError
from afl.operations.parameters import Dollars, Milliseconds, Run, Tokens, about
from afl.operations.reason import subjects
from afl.operations.reason.subjects import StepPlace
from afl.operations.roles import operator
from afl.operations.run import run_store
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_summary import set_budget
from afl.runtime.entities import RunDefinition, ServerDefinition, TaskState
from afl.runtime.evaluation.child_runs import settle_child_runs
from afl.runtime.evaluation.outcome import check_result
from afl.runtime.evaluator import Evaluator
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId


@dataclass(frozen=True)
class Change:
    """The outcome for a run. `changed` is False when it was so already, or could not be changed; `why` says it."""

    run: str
    workflow: str
    state: str
    changed: bool
    why: str = ""


@dataclass(frozen=True)
class Retried:
    """How many failed steps of a run will be tried again."""

    run: str
    workflow: str
    steps: int


@dataclass(frozen=True)
class Continued:
    """A step that goes on with the result it was given; `changed` is False when it had gone on already."""

    step: str
    run: str
    changed: bool


def pause(store: PersistenceAPI, run: Run, *, by: str = "") -> Change:
    """Pause a run. Running tasks continue, and their results wait."""
    found = run_store.find(store, run)
    reason = f"paused by operator {by or operator()}"
    return _change(store, found, store.pause_run(WorkflowId(found.workflow_id), reason))


def unpause(
    store: PersistenceAPI, run: Run, *, budget_usd: Dollars | None = None, budget_tokens: Tokens | None = None
) -> Change:
    """Continue a paused run, with another budget if its own is used up."""
    found = run_store.find(store, run)
    if budget_usd is not None or budget_tokens is not None:
        set_budget(store, found.workflow_id, usd=budget_usd, tokens=budget_tokens)
    return _change(store, found, store.unpause_run(WorkflowId(found.workflow_id)))


def cancel(store: PersistenceAPI, run: Run, *, by: str = "") -> Change:
    """End a run, its tasks and the child runs that end with it. `afl retry` runs it again."""
    found = run_store.find(store, run)
    reason = f"canceled by operator {by or operator()}"
    changed = store.cancel_run(WorkflowId(found.workflow_id), reason)
    if changed:
        settle_child_runs(store, program_cache(store))
        _tell_canceled(store, WorkflowId(found.workflow_id))
    return _change(store, found, changed)


def _tell_canceled(store: PersistenceAPI, run: WorkflowId) -> None:
    """End the spans of the run and of its canceled tasks."""
    told = telemetry.is_tracing() or telemetry.is_metering()
    now = store.get_run(run) if told else None
    if now is not None:
        for task in store.get_tasks_by_workflow(run):
            if task.state == TaskState.CANCELED:
                tracing.task_ended(task, now.reason)
        tracing.run_ended(now)


def _change(store: PersistenceAPI, found: RunDefinition, changed: bool) -> Change:
    now = store.get_run(WorkflowId(found.workflow_id))
    state = now.state if now is not None else found.state
    why = "" if changed else f"run {found.workflow_id} is {state}"
    return Change(found.workflow_id, found.workflow_name, state, changed, why)


def retry(
    store: PersistenceAPI,
    name: Annotated[str, about("A run: all its failed steps. A step (RUN/path), or a task.")],
) -> Retried:
    """Try failed steps again. Completed steps are kept; the run continues from there."""
    subject = subjects.find(store, name)
    if isinstance(subject, ServerDefinition):
        raise InputError(f"{name} is a server; a run or a step can be retried")
    if isinstance(subject, RunDefinition):
        run, step_id = subject, None
    elif isinstance(subject, StepPlace):
        run, step_id = subject.run, _begun(subject)
    else:
        run, step_id = run_store.find(store, subject.workflow_id), StepId(subject.step_id)
    steps = Evaluator(store).retry(WorkflowId(run.workflow_id), step_id)
    return Retried(run.workflow_id, run.workflow_name, steps)


def _begun(place: StepPlace) -> StepId:
    if place.step is None:
        raise StateError(f"nothing to retry: step {place.id} has not started")
    return place.id


def continue_step(
    store: PersistenceAPI,
    step: Annotated[str, about("The id of a step that waits for its agent.")],
    result: Annotated[
        Mapping[str, Any] | None, about("The return values of its facet by name; they are checked.")
    ] = None,
) -> Continued:
    """Supply the result of a step that is waiting for its agent; the run continues with it."""
    place = subjects.find_step(store, step)
    waiting, run = place.step, place.run.workflow_id
    if waiting is None or waiting.state != StepState.EVENT_TRANSMIT:
        state = "has not started" if waiting is None else f"is at {waiting.state}"
        raise StateError(f"step {place.id} {state}; it does not wait for a result")
    evaluator = Evaluator(store)
    given = dict(result) if result is not None else None
    check_result(evaluator.programs.of_run(WorkflowId(run)), waiting.facet_name, given)
    return Continued(place.id, run, evaluator.continue_step(place.id, given))


BATCH = 100
_PAGE = 1_000


@dataclass(frozen=True)
class Pruned:
    """How many runs, and tasks of no run, were removed (or would be), and the time before which they ended."""

    runs: int
    ended_before: int
    dry_run: bool
    tasks: int = 0  # servers of an earlier release do not tell


def prune(
    store: PersistenceAPI,
    older_than_ms: Milliseconds,
    *,
    dry_run: bool = False,
    batch: int = BATCH,
    progress: Callable[[int], None] | None = None,
) -> Pruned:
    """Remove runs that ended longer ago than this, with their steps, tasks and logs, and what belongs to no run.

    `progress` is called after each batch with the number removed.
    """
    if "retention" not in store.capabilities:
        raise CapabilityError("this store cannot remove runs; use SQLite or PostgreSQL")
    before = wall_ms() - older_than_ms
    if dry_run:
        return Pruned(_count(store, before), before, True, store.count_old_tasks(before))
    gone = [0, 0, 0]
    for kind, delete in enumerate((store.delete_runs, store.delete_tasks, store.delete_logs)):
        while count := delete(before, batch):
            gone[kind] += count
            if progress is not None:
                progress(sum(gone))
    return Pruned(gone[0], before, False, gone[1])


def _count(store: PersistenceAPI, before: int) -> int:
    count, last = 0, ""
    while page := store.find_runs(RunFilter(before=last, limit=_PAGE)):
        count += sum(run.is_over and run.ended < before for run in page)
        last = page[-1].workflow_id
    return count
