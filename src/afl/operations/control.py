"""What an operator does to a run: retry, cancel, pause, unpause."""

from __future__ import annotations

import getpass
from dataclasses import dataclass

from afl.kernel.errors import InputError
from afl.operations import runs, subjects
from afl.operations.spending import set_budget
from afl.operations.subjects import StepPlace
from afl.runtime.entities import RunDefinition, ServerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import StepId, WorkflowId


@dataclass(frozen=True)
class Change:
    """What became of a run. `changed` is False when it was so already, or could not be changed; `why` says it."""

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


def operator() -> str:
    """Who gives the order: the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user on this machine, as in some containers
        return "unknown"


def pause(store: PersistenceAPI, run: str, *, by: str = "") -> Change:
    """Stop a run where it stands. Tasks that run go on; their results wait."""
    found = runs.find(store, run)
    reason = f"paused by operator {by or operator()}"
    return _change(store, found, store.pause_run(WorkflowId(found.workflow_id), reason))


def unpause(
    store: PersistenceAPI, run: str, *, budget_usd: float | None = None, budget_tokens: int | None = None
) -> Change:
    """Let a paused run go on, with another budget if one is given."""
    found = runs.find(store, run)
    if budget_usd is not None or budget_tokens is not None:
        set_budget(store, found.workflow_id, usd=budget_usd, tokens=budget_tokens)
    return _change(store, found, store.unpause_run(WorkflowId(found.workflow_id)))


def cancel(store: PersistenceAPI, run: str, *, by: str = "") -> Change:
    """End a run and its tasks, whoever works on them."""
    found = runs.find(store, run)
    reason = f"cancelled by operator {by or operator()}"
    return _change(store, found, store.cancel_run(WorkflowId(found.workflow_id), reason))


def _change(store: PersistenceAPI, found: RunDefinition, changed: bool) -> Change:
    now = store.get_run(WorkflowId(found.workflow_id))
    state = now.state if now is not None else found.state
    why = "" if changed else f"run {found.workflow_id} is {state}"
    return Change(found.workflow_id, found.workflow_name, state, changed, why)


def retry(store: PersistenceAPI, name: str) -> Retried:
    """Try failed steps again: one step (or a task's), or all of a run. InputError if nothing failed there."""
    subject = subjects.find(store, name)
    if isinstance(subject, ServerDefinition):
        raise InputError(f"{name} is a server; a run or a step can be retried")
    if isinstance(subject, RunDefinition):
        run, step_id = subject, None
    elif isinstance(subject, StepPlace):
        run, step_id = subject.run, _begun(subject)
    else:
        run, step_id = runs.find(store, subject.workflow_id), StepId(subject.step_id)
    steps = Evaluator(store).retry(WorkflowId(run.workflow_id), step_id)
    return Retried(run.workflow_id, run.workflow_name, steps)


def _begun(place: StepPlace) -> StepId:
    if place.step is None:
        raise InputError(f"nothing to retry: step {place.id} has not begun")
    return place.id
