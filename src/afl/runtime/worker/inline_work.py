"""Working on a claimed task here and now, without threads."""

from __future__ import annotations

from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.handler import Handlers
from afl.runtime.worker.evaluations import Evaluations
from afl.runtime.worker.stepless import Stepless
from afl.runtime.worker.task_in_hand import Done
from afl.runtime.worker.terms import Counted
from afl.runtime.worker.thread_pool import ThreadPool
from afl.runtime.worker.workbench import Workbench

INLINE_LEASE_MS = 60_000  # nothing renews the lease of a task that is worked on without threads


class InlineWork:
    """Calls the handler of one task after another, and goes on with their runs."""

    def __init__(self, evaluator: Evaluator, handlers: Handlers, counted: Counted | None = None) -> None:
        self._store = evaluator.persistence
        self._counted = counted
        self._bench = Workbench(self._store, handlers, lambda: ThreadPool("afl-unused"), 1)
        self._evaluations = Evaluations(evaluator, None, lambda workflow_id: False, self._count)

    def do(self, task: TaskDefinition) -> None:
        """The whole of it: handler, result, run."""
        self._store.start_tasks([task])
        self._bench.start([task], here=True)
        done = self._bench.collect_now()
        if task.step_id:
            self._evaluations.deliver(done)
        else:
            stepless = Stepless(self._store, self._count)
            stepless.add(done)
            stepless.store()

    def _count(self, done: Done, problem: str | None) -> None:
        if self._counted is not None:
            self._counted(done.task.name, problem is None)
