"""The figures of a store: what waits, since when, and what has become of the runs."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping

from afl.kernel.clock import wall_ms
from afl.kernel.errors import StoreError
from afl.kernel.metrics import Labels, Sample, render
from afl.runtime.entities import RunnerState, TaskHold
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import TaskCount

_RUNS = (
    RunnerState.CREATED,
    RunnerState.RUNNING,
    RunnerState.PAUSED,
    RunnerState.COMPLETED,
    RunnerState.FAILED,
    RunnerState.CANCELED,
)
_HUMAN = "human:"
_KEPT_SECONDS = 2.0
_log = logging.getLogger(__name__)


def store_samples(store: PersistenceAPI) -> list[Sample]:
    """What the store holds at this moment."""
    runs, tasks = store.count_runs(), store.count_tasks()
    elsewhere = [each for each in tasks if each.hold == TaskHold.ELSEWHERE]
    asked = [each for each in elsewhere if each.via.startswith(_HUMAN)]
    free = [each for each in tasks if each.claimable]
    return [
        *(Sample("afl_runs", runs.get(state, 0), (state,)) for state in _RUNS),
        *_counted("afl_tasks", {each: (each.task_list, each.name, each.state, each.hold) for each in tasks}),
        *_ages("afl_oldest_task_seconds", {each: (each.task_list,) for each in free}),
        *_counted("afl_approvals_waiting", {each: (_group(each),) for each in asked}),
        *_ages("afl_oldest_approval_seconds", {each: (_group(each),) for each in asked}),
        *_counted("afl_elsewhere_tasks", {each: (each.via.partition(":")[0],) for each in elsewhere}),
    ]


class StoreFigures:
    """What a store holds, as text. Asked for again within seconds, the store is left alone."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._last: tuple[float, str] = (-_KEPT_SECONDS, "")

    def text(self) -> str:
        """A store that cannot be asked is a figure too."""
        with self._guard:
            now = time.monotonic()
            if now - self._last[0] >= _KEPT_SECONDS:
                self._last = (now, self._look())
            return self._last[1]

    def _look(self) -> str:
        try:
            found = store_samples(self._store)
        except StoreError as error:
            _log.warning("the store cannot be asked for its figures: %s", error)
            return render([Sample("afl_part_up", 0, ("store",))])
        return render([*found, Sample("afl_part_up", 1, ("store",))])


def _group(each: TaskCount) -> str:
    return each.via.removeprefix(_HUMAN)


def _counted(name: str, labeled: Mapping[TaskCount, Labels]) -> Iterable[Sample]:
    sums: Counter[Labels] = Counter()
    for each, labels in labeled.items():
        sums[labels] += each.count
    return [Sample(name, count, labels) for labels, count in sums.items()]


def _ages(name: str, labeled: Mapping[TaskCount, Labels]) -> Iterable[Sample]:
    oldest: dict[Labels, int] = {}
    for each, labels in labeled.items():
        oldest[labels] = min(each.oldest, oldest.get(labels, each.oldest))
    now = wall_ms()
    return [Sample(name, max(0, now - moment) / 1000, labels) for labels, moment in oldest.items()]
