"""What a runner does for all at each poll: steps that were lost, workflows that are due, runs that are too old."""

from __future__ import annotations

import time
from collections.abc import Callable

from afl.kernel.clock import wall_ms
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.schedules import WorkflowSchedules
from afl.runtime.sweep import continue_lost_steps

Chore = Callable[[], object]

_LOST_STEPS_SECONDS = 30.0
_RETENTION_SECONDS = 60.0
_RETENTION_BATCH = 20
_DAY_MS = 86_400_000


def chores_of(store: PersistenceAPI, evaluator: Evaluator, retention_days: int) -> list[Chore]:
    """The chores for a store: those it can do, some of them less often than at each poll."""
    chores = [_rarely(_LOST_STEPS_SECONDS, lambda: continue_lost_steps(evaluator))]
    schedules = WorkflowSchedules.of(store)
    if schedules is not None:
        chores.append(schedules.fire_due)
    if retention_days and "retention" in store.capabilities:
        chores.append(_rarely(_RETENTION_SECONDS, lambda: _prune(store, retention_days)))
    return chores


def _prune(store: PersistenceAPI, days: int) -> int:
    return store.delete_runs(wall_ms() - days * _DAY_MS, _RETENTION_BATCH)


def _rarely(seconds: float, chore: Chore) -> Chore:
    """A chore that is done at most every so often."""
    last = -seconds

    def when_due() -> object:
        nonlocal last
        now = time.monotonic()
        if now - last < seconds:
            return None
        last = now
        return chore()

    return when_due
