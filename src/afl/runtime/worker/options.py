"""How a worker works, and what is called when something happens to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from afl.runtime.entities import TaskDefinition
from afl.runtime.worker.results import TaskResult


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker works. `evaluates`: it also advances runs that none of its tasks belong to.

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


@dataclass
class WorkerHooks:
    """What else a worker does: tasks of the system, and periodic jobs at each poll.

    `counted` is told the facet of each stored result and whether it is good, `stored` the result and its problem,
    `retried` the result, its error and the delay in milliseconds, `started` each task whose handler is about to run.
    """

    run_system_task: Callable[[TaskDefinition], None] | None = None
    periodic_jobs: list[Callable[[], object]] = field(default_factory=list)
    counted: Callable[[str, bool], None] | None = None
    stored: Callable[[TaskResult, str | None], None] | None = None
    retried: Callable[[TaskResult, str, int], None] | None = None
    started: Callable[[TaskDefinition], None] | None = None
