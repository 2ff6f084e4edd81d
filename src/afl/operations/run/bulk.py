"""One action on every run that a filter finds: what it would hit, and doing it, some runs at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.clock import wall_ms
from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError, CapabilityError, InputError
from afl.operations.parameters import RunStateName, about
from afl.operations.run import control
from afl.operations.run.rerun import rerun
from afl.operations.run.run_filters import (
    Longer,
    Match,
    MaxCost,
    MinCost,
    Older,
    Shorter,
    TagList,
    Text,
    Within,
    WorkflowName,
    matching,
    run_filter,
)
from afl.operations.run.run_list import RunLine, run_lines
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

MOST_COUNTED = 10_000
_SHOWN = 10
_OVER = (RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELED)
_OPEN = (RunnerState.CREATED, RunnerState.RUNNING)


def _retry(store: PersistenceAPI, run: str, by: str) -> str:
    control.retry(store, run)
    return ""


def _cancel(store: PersistenceAPI, run: str, by: str) -> str:
    return control.cancel(store, run, by=by).why


def _pause(store: PersistenceAPI, run: str, by: str) -> str:
    return control.pause(store, run, by=by).why


def _unpause(store: PersistenceAPI, run: str, by: str) -> str:
    return control.unpause(store, run).why


def _rerun(store: PersistenceAPI, run: str, by: str) -> str:
    rerun(store, run, by=by)
    return ""


def _anything(store: PersistenceAPI, run: str) -> bool:
    return True


def _never_again(store: PersistenceAPI, run: str) -> bool:
    """Whether it was not started again yet: so an action that was interrupted can be repeated."""
    return all(each.origin != run for each in store.get_runs_from(run))


@dataclass(frozen=True)
class _Action:
    """What is done to a run (why it was not, if so), and the runs that it can be done to: by stored state and more."""

    do: Callable[[PersistenceAPI, str, str], str]
    states: tuple[str, ...]
    applies: Callable[[PersistenceAPI, str], bool] = _anything


ACTIONS: dict[str, _Action] = {
    "retry": _Action(_retry, (RunnerState.FAILED, RunnerState.CANCELED)),
    "rerun": _Action(_rerun, _OVER, _never_again),
    "cancel": _Action(_cancel, (*_OPEN, RunnerState.PAUSED)),
    "pause": _Action(_pause, _OPEN),
    "unpause": _Action(_unpause, (RunnerState.PAUSED,)),
}
"""What `bulk_runs` does; one more is a row more."""
PRUNE = "prune"
ACTION_NAMES = (*ACTIONS, PRUNE)

BulkAction = Annotated[str, Meta(description="What to do with each run.", extra={"choices": tuple(ACTIONS)})]
AnyAction = Annotated[
    str, Meta(description="What would be done to each run.", extra={"choices": ACTION_NAMES})
]
BulkLimit = Annotated[int, Meta(ge=1, le=1_000, description="How many runs at most in this call.")]
Behind = Annotated[str, about("Go on behind this run: what the call before gave as `next`.")]


@dataclass(frozen=True)
class BulkPreview:
    """What an action would hit: how many runs (`more`: and more, 10,000 are counted), and the newest of them."""

    action: str
    count: int
    more: bool
    runs: list[RunLine]


@dataclass(frozen=True)
class BulkFailure:
    """A run that the action was not done to, and why."""

    run: str
    problem: str


@dataclass(frozen=True)
class BulkResult:
    """How many runs it was done to, and those it was not.

    With `next` there are more: call again with it as `before`. `summary` is what the audit log says.
    """

    action: str
    done: int
    failed: list[BulkFailure] = field(default_factory=list)
    next: str = ""
    summary: str = ""


def preview_bulk(
    store: PersistenceAPI,
    action: AnyAction,
    *,
    state: RunStateName = "",
    workflow: WorkflowName = "",
    text: Text = "",
    tags: TagList = None,
    within: Within = "",
    older_than: Older = "",
    longer_than: Longer = "",
    shorter_than: Shorter = "",
    min_cost: MinCost = 0,
    max_cost: MaxCost = 0,
) -> BulkPreview:
    """Show what a bulk action would hit: how many runs, and the newest of them. Nothing is changed."""
    given = _given(locals())
    hits = list(islice(_hits(store, action, given), MOST_COUNTED + 1))
    count = min(len(hits), MOST_COUNTED)
    return BulkPreview(action, count, len(hits) > count, run_lines(store, hits[:_SHOWN]))


def bulk_runs(
    store: PersistenceAPI,
    action: BulkAction,
    *,
    state: RunStateName = "",
    workflow: WorkflowName = "",
    text: Text = "",
    tags: TagList = None,
    within: Within = "",
    older_than: Older = "",
    longer_than: Longer = "",
    shorter_than: Shorter = "",
    min_cost: MinCost = 0,
    max_cost: MaxCost = 0,
    before: Behind = "",
    limit: BulkLimit = 100,
    by: str = "",
) -> BulkResult:
    """Retry, rerun, cancel, pause or unpause every run that the filters find, newest first; give at least one filter.

    Rerun starts ended runs again as new ones, with the same inputs; those that were started again before are left out.

    Each run is processed separately: if the call is interrupted, repeating it skips those already done.
    """
    given = _given(locals())
    if action not in ACTIONS:
        raise InputError(f"{action!r} is not a bulk action; expected one of {', '.join(ACTIONS)}")
    hits = list(islice(_hits(store, action, given, before), limit + 1))
    failed = []
    for run, _ in hits[:limit]:
        problem = _attempt(store, action, run, by)
        if problem:
            failed.append(BulkFailure(run.workflow_id, problem))
    last = hits[limit - 1][0].workflow_id if len(hits) > limit else ""
    return _result(action, min(len(hits), limit) - len(failed), failed, last, given)


def bulk_prune(
    store: PersistenceAPI,
    *,
    state: RunStateName = "",
    workflow: WorkflowName = "",
    text: Text = "",
    tags: TagList = None,
    within: Within = "",
    older_than: Older = "",
    longer_than: Longer = "",
    shorter_than: Shorter = "",
    min_cost: MinCost = 0,
    max_cost: MaxCost = 0,
    before: Behind = "",
    limit: BulkLimit = 100,
) -> BulkResult:
    """Remove every ended run that the filters find, with all that belongs to it; at least one filter must be given."""
    given = _given(locals())
    if "retention" not in store.capabilities:
        raise CapabilityError("this store cannot remove runs; use SQLite or PostgreSQL")
    hits = list(islice(_hits(store, PRUNE, given, before), limit + 1))
    ids = [WorkflowId(run.workflow_id) for run, _ in hits[:limit]]
    if ids:
        store.delete_runs(wall_ms() + 1, len(ids), ids)
    left = {run.workflow_id for run in store.get_outcomes(ids)}
    kept = [run for run in ids if run in left]
    failed = [BulkFailure(run, "its work elsewhere, or its parent, has not been told yet") for run in kept]
    # A run that is gone is no place to go on behind: what is left is found from the start, behind those that stay.
    behind = kept[-1] if kept else before
    more = len(hits) > limit and len(kept) < len(ids)
    return _result(PRUNE, len(ids) - len(kept), failed, behind or FROM_START if more else "", given)


FROM_START = "-"
"""As `before`: start with the newest."""


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that were given; InputError without any: that is every run of the store."""
    names = ("state", "workflow", "text", "tags", "within", "older_than", "longer_than", "shorter_than")
    given = {name: values[name] for name in (*names, "min_cost", "max_cost") if values[name]}
    if not given:
        raise InputError("a bulk action needs a filter, such as a state, a workflow or a tag")
    return given


def _hits(store: PersistenceAPI, action: str, given: Mapping[str, Any], before: str = "") -> Iterator[Match]:
    """The runs that the filters find and the action can be done to, newest first."""
    filters = {name: value for name, value in given.items() if name != "state"}
    wanted = run_filter(**filters, before="" if before == FROM_START else before, limit=500)
    if action not in ACTION_NAMES:
        raise InputError(f"{action!r} is not a bulk action; expected one of {', '.join(ACTION_NAMES)}")
    state = given.get("state", "")
    if action == PRUNE:
        return matching(store, state, wanted, _OVER)
    found = matching(store, state, wanted, ACTIONS[action].states)
    return (hit for hit in found if ACTIONS[action].applies(store, hit[0].workflow_id))


def _attempt(store: PersistenceAPI, action: str, run: RunDefinition, by: str) -> str:
    """Do it; why it was not done, if so."""
    try:
        return ACTIONS[action].do(store, run.workflow_id, by)
    except AgentFlowError as error:
        return error_text(error)


def _result(
    action: str, done: int, failed: list[BulkFailure], behind: str, given: Mapping[str, Any]
) -> BulkResult:
    filters = " ".join(
        f"{name}={','.join(value) if isinstance(value, list) else value}" for name, value in given.items()
    )
    refused = f", {len(failed)} not" if failed else ""
    return BulkResult(action, done, failed, behind, f"{action} of {done} runs{refused}: {filters}")
