"""Waiting for the end of a run, and for its next log entries. A remote client waits by repeated long polls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.errors import NotFoundError
from afl.operations.client import OperationsClient
from afl.operations.parameters import LongPoll
from afl.operations.run import run_store
from afl.operations.run.attempts import AttemptView, failed_attempts
from afl.operations.run.run_log import OVERLAP, LogLine, LogPage, read_page
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import run_topic
from afl.runtime.types import WorkflowId

_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class RunEnd:
    """Where a run stood when the wait was over; `timed_out` if it was not over by then.

    `attempts` are those of the step that failed it.
    """

    run: str
    workflow: str
    state: str
    timed_out: bool
    outputs: dict[str, Any]
    error: dict[str, Any] | None
    reason: str
    duration_ms: int
    attempts: list[AttemptView] = field(default_factory=list)


def wait(store: PersistenceAPI, run: str, timeout: float | None = None) -> RunEnd:
    """Wait until a run is over, for at most so many seconds."""
    until = None if timeout is None else time.monotonic() + timeout
    with store.subscribe([run_topic(run)]) as subscription:
        while True:
            found = store.get_run(WorkflowId(run))
            if found is None:
                raise NotFoundError(f"run {run} is no longer in this store")
            left = _POLL_SECONDS if until is None else min(_POLL_SECONDS, until - time.monotonic())
            if found.is_over or left <= 0:
                return _end(store, found)
            subscription.wait(left)


def wait_a_while(store: PersistenceAPI, run: str, timeout: LongPoll = 0) -> RunEnd:
    """Where a run stands when it is over, or after so many seconds; `timed_out` tells which."""
    return wait(store, run_store.find(store, run or None).workflow_id, timeout)


MOST_RUNS = 1_000


@dataclass(frozen=True)
class RunEnds:
    """Those of some runs that are over, and those that are not in the store."""

    ended: list[RunEnd]
    unknown: list[str]


def wait_for_any(
    store: PersistenceAPI,
    runs: Annotated[list[str], Meta(max_length=MOST_RUNS, description="Whole ids of runs.")],
    timeout: LongPoll = 0,
) -> RunEnds:
    """Those of some runs that are over, as soon as there is one, or after so many seconds."""
    until = time.monotonic() + timeout
    with store.subscribe([run_topic(run) for run in runs]) as subscription:
        while True:
            found = ended_runs(store, runs)
            left = until - time.monotonic()
            if found.ended or found.unknown or left <= 0:
                return found
            subscription.wait(min(left, _POLL_SECONDS))


def ended_runs(store: PersistenceAPI, runs: Sequence[str]) -> RunEnds:
    """Those of some runs that are over, as of now."""
    known = store.are_over([WorkflowId(run) for run in runs])
    over = [store.get_run(run) for run, is_over in known.items() if is_over]
    unknown = [run for run in runs if WorkflowId(run) not in known]
    return RunEnds([_end(store, run) for run in over if run is not None], unknown)


def _end(store: PersistenceAPI, run: RunDefinition) -> RunEnd:
    return RunEnd(
        run=run.workflow_id,
        workflow=run.workflow_name,
        state=run.state,
        timed_out=not run.is_over,
        outputs=run.outputs,
        error=run.error,
        reason=run.reason,
        duration_ms=max(0, (run.ended or run.updated) - run.created),
        attempts=failed_attempts(store, run),
    )


A_WHILE = 20.0
_NEWS_SECONDS = 5.0
_BATCH = 1_000


def wait_for_run(client: OperationsClient, run: str, timeout: float | None = None) -> RunEnd:
    """Where a run stands when it is over, or when so many seconds are."""
    left = countdown(timeout)
    while True:
        seconds = left()
        end = client.call(wait_a_while, run, min(seconds, A_WHILE))
        if not end.timed_out or seconds <= A_WHILE:
            return end


def read_log(client: OperationsClient, run: str, *, follow: bool = False) -> Iterator[LogLine]:
    """What a run logged so far, and with `follow` what it logs from now on, until it is over."""
    highest, seen = 0, dict[str, None]()
    while True:
        page = LogPage([], max(0, highest - OVERLAP), False)
        full = True
        while full:
            page = client.call(read_page, run, after=page.position, limit=_BATCH)
            full = len(page.lines) == _BATCH
            for line in page.lines:
                if line.id not in seen:
                    seen[line.id] = None
                    yield line
        if not follow or page.over:
            return
        highest = max(highest, page.position)
        for old in list(seen)[: -2 * OVERLAP]:
            del seen[old]
        client.call(read_page, run, after=highest, limit=1, wait=_NEWS_SECONDS)


def countdown(timeout: float | None) -> Callable[[], float]:
    """How many seconds are left, whenever it is asked."""
    if timeout is None:
        return lambda: float("inf")
    until = time.monotonic() + timeout
    return lambda: max(0.0, until - time.monotonic())
