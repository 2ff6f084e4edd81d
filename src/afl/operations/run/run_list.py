"""Runs, one line each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.operations.parameters import Limit, RunStateName, about
from afl.operations.run import run_store
from afl.runtime.entities import RunDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI, RunFilter


@dataclass(frozen=True)
class RunLine:
    """One run. `waiting` counts its steps that wait for agents; `error` is the failure on one line.

    `parent` is the run that started it, if it is a child run.
    """

    run: str
    workflow: str
    state: str
    task_list: str
    created: int
    ended: int
    duration_ms: int
    waiting: int
    reason: str
    error: str
    parent: str = ""
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunPage:
    """Runs, newest first; `next` is what to give as `before` for the page behind, empty on the last."""

    runs: list[RunLine]
    next: str


def list_runs(
    store: PersistenceAPI,
    *,
    state: RunStateName = "",
    workflow: Annotated[str, about("Only runs of this workflow.")] = "",
    text: Annotated[
        str, about("Stands in a run's id or name, its workflow's name, its error or its reason.")
    ] = "",
    since: Annotated[
        int, Meta(ge=0, le=2**53, description="Created then or later (milliseconds since 1970).")
    ] = 0,
    until: Annotated[
        int, Meta(ge=0, le=2**53, description="Created before then (milliseconds since 1970).")
    ] = 0,
    tags: Annotated[list[str] | None, about("Only runs that have these tags, each as key=value.")] = None,
    before: Annotated[str, about("Only older ones than this run.")] = "",
    limit: Limit = 20,
) -> RunPage:
    """List runs, newest first."""
    start = run_store.find(store, before).workflow_id if before else ""
    found = store.find_runs(
        RunFilter(
            state=state,
            workflow=workflow,
            text=text,
            since=since,
            until=until,
            tags=_labels(tags or []),
            before=start,
            limit=limit + 1,
        )
    )
    page = found[:limit]
    return RunPage([run_line(run) for run in page], page[-1].workflow_id if len(found) > limit else "")


def _labels(tags: list[str]) -> tuple[str, ...]:
    """The tags, once each; InputError for one that is not written key=value."""
    for each in tags:
        if "=" not in each:
            raise InputError(f"a tag is written key=value, got {each!r}")
    return tuple(dict.fromkeys(tags))


def run_line(run: RunDefinition) -> RunLine:
    """A run on one line."""
    failure = StepFailure.from_dict(run.error) if run.error else None
    return RunLine(
        run=run.workflow_id,
        workflow=run.workflow_name,
        state=run.state,
        task_list=run.task_list,
        created=run.created,
        ended=run.ended,
        duration_ms=max(0, (run.ended or wall_ms()) - run.created),
        waiting=run.waiting,
        reason=run.reason,
        error=str(failure) if failure is not None else "",
        parent=run.parent,
        name=run.name,
        tags=run.tags,
    )
