"""How a worker works, what is called when something happens to it, and what it does periodically."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from afl.kernel.errors import AgentFlowError, StoreError
from afl.runtime.entities import TaskDefinition
from afl.runtime.worker.results import TaskResult

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 1.0  # how long they wait while there is more to claim


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker works. `evaluates`: it also advances runs that none of its tasks belong to.

    `capture_logging` stores what handlers say by `logging`, while the worker runs.

    `lease_ms` is the lease of its tasks, 0 for the store's own; `lock_ms` that of their locks, 0 for none.
    """

    task_list: str = "default"
    concurrency: int = 5
    poll_seconds: float = 2.0
    lease_ms: int = 0
    lock_ms: int = 0
    lock_every_ms: int = 0
    evaluates: bool = False
    system_tasks: tuple[str, ...] = ()
    capture_logging: bool = False


@dataclass
class WorkerHooks:
    """What else a worker does: tasks of the system, and periodic jobs at each poll.

    `started` is called with each task whose handler is about to run, `stored` with each result once it is stored, and
    its problem, `retried` with a result, its error and the delay in milliseconds (without it: `stored`).
    """

    run_system_task: Callable[[TaskDefinition], None] | None = None
    periodic_jobs: list[Callable[[], object]] = field(default_factory=list)
    started: Callable[[TaskDefinition], object] = lambda task: None
    stored: Callable[[TaskResult, str | None], object] = lambda result, problem: None
    retried: Callable[[TaskResult, str, int], object] | None = None


class PeriodicJobs:
    """`jobs` gives what there is to do. It waits while the worker is busy, but not for good."""

    def __init__(self, jobs: Callable[[], Sequence[Callable[[], object]]]) -> None:
        self._jobs = jobs
        self._since: float | None = None  # when they fell due

    def fall_due(self, now: float) -> None:
        """The jobs are to be run soon."""
        if self._since is None:
            self._since = now

    def run(self, now: float, *, busy: bool) -> None:
        """Run them, if it is time. One that fails does not stop the others, unless it is the store that fails."""
        if self._since is None or (busy and now < self._since + _PATIENCE_SECONDS):
            return
        self._since = None
        for job in self._jobs():
            try:
                job()
            except StoreError:
                raise
            except AgentFlowError as error:
                _log.warning("%s failed: %s", getattr(job, "__name__", "a periodic job"), error)
            except Exception:  # no reason to end, with tasks in flight
                _log.exception("%s failed", getattr(job, "__name__", "a periodic job"))
