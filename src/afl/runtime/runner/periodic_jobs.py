"""What a runner does for all at each poll: steps that were lost, workflows that are due, what is too old."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from afl.kernel.clock import wall_ms
from afl.kernel.isolation import Isolation
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import UsageStore
from afl.runtime.recovery.sweep import continue_lost_steps, receive_lost_signals
from afl.runtime.schedules import WorkflowSchedules
from afl.runtime.stores.usage_store import usage_store

_log = logging.getLogger(__name__)
Job = Callable[[], object]
Batch = Callable[[], bool]  # whether there may be more of it

_LOST_STEPS_SECONDS = 30.0
_RETENTION_SECONDS = 60.0
_SEARCH_SECONDS = 2.0
_SEARCH_BATCH = 250
_LARGEST_SHARE = 0.004  # of the time, for looking at all that waits: there may be 100,000 sleeping runs
_LOST_STEPS_BATCH = 100
_RUNS_BATCH = 20  # each with all its steps
_SINGLES_BATCH = 200
_DAY_MS = 86_400_000


def periodic_jobs_of(
    store: PersistenceAPI, evaluator: Evaluator, retention_days: int, model_calls_days: int = 30
) -> list[Job]:
    """The jobs for a store: those it can do, some of them less often than at each poll."""
    jobs: list[Job] = [_rarely(_LOST_STEPS_SECONDS, lambda: _help_on(evaluator))]
    jobs.append(_rarely(_SEARCH_SECONDS, lambda: store.index_runs(_SEARCH_BATCH) >= _SEARCH_BATCH))
    schedules = WorkflowSchedules.of(store)
    if schedules is not None:
        jobs.append(schedules.fire_due)
    if retention_days and "retention" in store.capabilities:
        apart = Isolation(_log, "retention")
        jobs.append(_rarely(_RETENTION_SECONDS, lambda: _prune(store, retention_days, apart)))
    kept = usage_store(store)
    if kept is not None:
        jobs.append(_rarely(_RETENTION_SECONDS, lambda: _forget_exchanges(kept, model_calls_days)))
    return jobs


def _forget_exchanges(kept: UsageStore, days: int) -> bool:
    return kept.forget_exchanges(wall_ms() - days * _DAY_MS, _SINGLES_BATCH) == _SINGLES_BATCH


def _help_on(evaluator: Evaluator) -> bool:
    received = receive_lost_signals(evaluator, _LOST_STEPS_BATCH)
    return continue_lost_steps(evaluator, _LOST_STEPS_BATCH) == _LOST_STEPS_BATCH or received > 0


def _prune(store: PersistenceAPI, days: int, apart: Isolation) -> bool:
    before = wall_ms() - days * _DAY_MS
    gone = 0
    with apart.item("old runs"):
        gone += store.delete_runs(before, _RUNS_BATCH)
    with apart.item("old tasks"):
        gone += store.delete_tasks(before, _SINGLES_BATCH)
    with apart.item("old lines of logs"):
        gone += store.delete_logs(before, _SINGLES_BATCH)
    return gone > 0


def _rarely(seconds: float, batch: Batch) -> Job:
    """A job that is done at most every so often, and takes a small share of the time; at each poll if there is more."""
    due = 0.0

    def when_due() -> None:
        nonlocal due
        begun = time.monotonic()
        if begun < due:
            return
        due = begun + seconds
        due = 0.0 if batch() else max(due, begun + (time.monotonic() - begun) / _LARGEST_SHARE)

    return when_due
