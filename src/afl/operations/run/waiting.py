"""Waiting for the ends of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.errors import NotFoundError
from afl.operations.parameters import LongPoll
from afl.operations.run import run_store
from afl.operations.run.attempts import AttemptView, failed_attempts
from afl.runtime.entities import RunOutcome
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import run_topic
from afl.runtime.types import WorkflowId


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

    def look() -> RunOutcome:
        outcomes = store.get_outcomes([WorkflowId(run)])
        if not outcomes:
            raise NotFoundError(f"run {run} is no longer in this store")
        return outcomes[0]

    with store.subscribe([run_topic(run)]) as subscription:
        return _end(store, subscription.poll(look, lambda outcome: outcome.is_over, timeout))


def wait_a_while(store: PersistenceAPI, run: str, timeout: LongPoll = 0) -> RunEnd:
    """The state of a run when it has ended, or after that many seconds; `timed_out` says which."""
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
    """The runs that have ended, as soon as there is one, or after that many seconds."""
    with store.subscribe([run_topic(run) for run in runs]) as subscription:
        return subscription.poll(
            lambda: ended_runs(store, runs),
            lambda found: bool(found.ended or found.unknown or not runs),
            timeout,
        )


def ended_runs(store: PersistenceAPI, runs: Sequence[str]) -> RunEnds:
    """Those of some runs that are over, as of now."""
    found = {run.workflow_id: run for run in store.get_outcomes([WorkflowId(run) for run in runs])}
    ended = [_end(store, run) for run in found.values() if run.is_over]
    return RunEnds(ended, [run for run in runs if run not in found])


def _end(store: PersistenceAPI, run: RunOutcome) -> RunEnd:
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
