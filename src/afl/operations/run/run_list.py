"""Runs, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from typing import Annotated

from msgspec import Meta

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.operations.parameters import RUN_STATES, Limit, RunStateName, about
from afl.operations.run import run_store
from afl.operations.run.leading_inputs import leading_inputs
from afl.operations.run.run_status import (
    BUDGET,
    RETRYING,
    WAITING,
    RunStatus,
    Staff,
    statuses,
)
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.run_lists import WAITS, Waits
from afl.runtime.types import WorkflowId


@dataclass(frozen=True)
class RunLine:
    """One run. `waiting` counts its steps that wait for agents; `error` is the failure on one line.

    `state` is what is stored; `status` what it does: that, or `retrying`, or `waiting` for what `waits_for` says, of
    those that `names` names. `attention`: nothing happens before somebody acts. `inputs` are its first input values.

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
    status: str = ""
    waits_for: str = ""
    names: str = ""
    attention: bool = False
    inputs: str = ""

    @property
    def status_words(self) -> str:
        """`waiting for a person`; the stored state where nobody looked further."""
        return RunStatus(self.status or self.state, self.waits_for).words


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
    """List runs, newest first: what each does or waits for, its name, tags and first inputs."""
    start = run_store.find(store, before).workflow_id if before else ""
    wanted = RunFilter(
        workflow=workflow,
        text=text,
        since=since,
        until=until,
        tags=_labels(tags or []),
        before=start,
        limit=limit + 1,
    )
    found = list(islice(matching(store, state, wanted), limit + 1))
    page = found[:limit]
    return RunPage(_lines(store, page), page[-1][0].workflow_id if len(found) > limit else "")


def matching(
    store: PersistenceAPI, status: str, wanted: RunFilter
) -> Iterator[tuple[RunDefinition, RunStatus]]:
    """Runs in one of RUN_STATES (empty: any) that fit the filter, newest first, each with its state.

    They are read a page of `wanted.limit` at a time. InputError for a word that is no state.
    """
    if status and status not in RUN_STATES:
        raise InputError(f"{status!r} is no state of a run; expected one of {', '.join(RUN_STATES)}")
    staff = Staff(store)
    streams = [_stream(store, status, asked, staff) for asked in _stored(status, wanted)]
    if len(streams) == 1:
        return streams[0]
    return merge(*streams, key=lambda pair: (pair[0].created, pair[0].workflow_id), reverse=True)


def _stream(
    store: PersistenceAPI, status: str, asked: RunFilter, staff: Staff
) -> Iterator[tuple[RunDefinition, RunStatus]]:
    while True:
        page = store.find_runs(asked)
        known = statuses(store, page, staff)
        yield from ((run, known[run.workflow_id]) for run in page if known[run.workflow_id].fits(status))
        if len(page) < asked.limit:
            return
        asked = replace(asked, before=page[-1].workflow_id, limit=max(_READ, asked.limit))


_READ = 200


def _stored(status: str, wanted: RunFilter) -> list[RunFilter]:
    """What the store can filter by, of which those in this state are some."""
    kind = status.partition(":")[2]
    paused = replace(wanted, state=RunnerState.PAUSED)
    if kind == BUDGET:
        return [paused]
    if status == WAITING:
        every = tuple(each for each in WAITS if each != Waits.RETRY)
        return [replace(wanted, state=RunnerState.RUNNING, waits=every), paused]
    if kind or status == RETRYING:
        return [replace(wanted, state=RunnerState.RUNNING, waits=(kind or Waits.RETRY,))]
    return [replace(wanted, state=status)]


def _labels(tags: list[str]) -> tuple[str, ...]:
    """The tags, once each; InputError for one that is not written key=value."""
    for each in tags:
        if "=" not in each:
            raise InputError(f"a tag is written key=value, got {each!r}")
    return tuple(dict.fromkeys(tags))


def _lines(store: PersistenceAPI, found: Sequence[tuple[RunDefinition, RunStatus]]) -> list[RunLine]:
    texts = store.get_leading_inputs([WorkflowId(run.workflow_id) for run, _ in found])
    return [
        run_line(run, status, leading_inputs(texts.get(WorkflowId(run.workflow_id), "")))
        for run, status in found
    ]


def run_line(run: RunDefinition, status: RunStatus | None = None, inputs: str = "") -> RunLine:
    """A run on one line; without a status that is derived, its stored state is its status."""
    failure = StepFailure.from_dict(run.error) if run.error else None
    known = status or RunStatus(run.state)
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
        status=known.status,
        waits_for=known.waits_for,
        names=known.names,
        attention=known.attention,
        inputs=inputs,
    )
