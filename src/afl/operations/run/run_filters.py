"""Which runs: the filters that lists and bulk actions share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import merge
from typing import Annotated

from msgspec import Meta

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.operations.parameters import RUN_STATES, about
from afl.operations.run.run_status import BUDGET, RETRYING, WAITING, RunStatus, Staff, statuses
from afl.operations.spans import read_span
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.run_lists import WAITS, Waits

WorkflowName = Annotated[str, about("Only runs of this workflow.")]
Text = Annotated[
    str,
    about(
        "Words, or prefixes of words, in id, name, workflow, tags, inputs, outputs or error; all must match."
    ),
]
Since = Annotated[int, Meta(ge=0, le=2**53, description="Created then or later (milliseconds since 1970).")]
Until = Annotated[int, Meta(ge=0, le=2**53, description="Created before then (milliseconds since 1970).")]
TagList = Annotated[list[str] | None, about("Only runs that have these tags, each as key=value.")]
Within = Annotated[str, about("Only runs created within this long: 90m, 24h, 7d.")]
Older = Annotated[str, about("Only runs created longer ago than this: 90m, 24h, 7d.")]
Longer = Annotated[str, about("Only runs that took, or have taken so far, at least this long: 30s, 2h.")]
Shorter = Annotated[str, about("Only runs that took, or have taken so far, at most this long: 30s, 2h.")]
MinCost = Annotated[
    float, Meta(ge=0, le=1e9, description="Only runs whose models cost at least this many US dollars.")
]
MaxCost = Annotated[
    float, Meta(ge=0, le=1e9, description="Only runs whose models cost at most this many US dollars.")
]
Match = tuple[RunDefinition, RunStatus]
_READ = 200


def run_filter(
    *,
    workflow: str = "",
    text: str = "",
    since: int = 0,
    until: int = 0,
    tags: Sequence[str] | None = None,
    within: str = "",
    older_than: str = "",
    longer_than: str = "",
    shorter_than: str = "",
    min_cost: float = 0,
    max_cost: float = 0,
    before: str = "",
    limit: int = 100,
) -> RunFilter:
    """The filter of a store; InputError for a tag or a span of time that is not written as one."""
    if within:
        since = max(since, wall_ms() - read_span(within))
    if older_than:
        ago = wall_ms() - read_span(older_than)
        until = min(until, ago) if until else ago
    return RunFilter(
        workflow=workflow,
        text=text,
        since=since,
        until=until,
        tags=_labels(tags or []),
        longer=read_span(longer_than) if longer_than else 0,
        shorter=read_span(shorter_than) if shorter_than else 0,
        cost_from=min_cost,
        cost_to=max_cost,
        before=before,
        limit=limit,
    )


def _labels(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags, once each; InputError for one that is not written key=value."""
    for each in tags:
        if "=" not in each:
            raise InputError(f"a tag is written key=value, got {each!r}")
    return tuple(dict.fromkeys(tags))


def matching(
    store: PersistenceAPI, status: str, wanted: RunFilter, stored: Sequence[str] = ()
) -> Iterator[Match]:
    """Runs in one of RUN_STATES (empty: any) that fit the filter, newest first, each with its state.

    With `stored`, only those whose stored state is one of these. They are read a page of `wanted.limit` at a time.
    InputError for a word that is no state.
    """
    if status and status not in RUN_STATES:
        raise InputError(f"{status!r} is not a state of a run; expected one of {', '.join(RUN_STATES)}")
    staff = Staff(store)
    asked = (
        _stored(status, wanted) if status or not stored else [replace(wanted, state=each) for each in stored]
    )
    kept = [each for each in asked if not stored or each.state in stored]
    streams = [_stream(store, status, each, staff) for each in kept]
    if len(streams) == 1:
        return streams[0]
    return merge(*streams, key=lambda pair: (pair[0].created, pair[0].workflow_id), reverse=True)


def _stream(store: PersistenceAPI, status: str, asked: RunFilter, staff: Staff) -> Iterator[Match]:
    while True:
        page = store.find_runs(asked)
        known = statuses(store, page, staff)
        yield from ((run, known[run.workflow_id]) for run in page if known[run.workflow_id].fits(status))
        if len(page) < asked.limit:
            return
        asked = replace(asked, before=page[-1].workflow_id, limit=max(_READ, asked.limit))


def _stored(status: str, wanted: RunFilter) -> list[RunFilter]:
    """What the store can filter by, of which those in this state are some."""
    kind = status.partition(":")[2]
    paused = replace(wanted, state=RunnerState.PAUSED, waits=(Waits.BUDGET,))
    if kind == BUDGET:
        return [paused]
    if status == WAITING:
        every = tuple(each for each in WAITS if each != Waits.RETRY)
        return [replace(wanted, state=RunnerState.RUNNING, waits=every), paused]
    if kind or status == RETRYING:
        return [replace(wanted, state=RunnerState.RUNNING, waits=(kind or Waits.RETRY,))]
    return [replace(wanted, state=status)]
