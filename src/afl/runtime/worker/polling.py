"""A worker without threads: `poll_once`, `run_once` and ClaudeAgentRunner."""

from __future__ import annotations

from typing import TypedDict

from afl.kernel import event_loop
from afl.kernel.thread_pool import ThreadPool
from afl.runtime.entities import RunDefinition, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.task_handlers.capture import capturing_logging
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.worker.options import WorkerHooks, WorkerOptions
from afl.runtime.worker.worker import Worker


class _Claim(TypedDict):
    lease_ms: int
    lock_ms: int
    while_alive: bool


class PollingWorker(Worker):
    """Claims tasks and runs their handlers one after another on the calling thread.

    Nothing renews a lease meanwhile: where the store can know that this process lives, the lease does not expire.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        handlers: Handlers,
        options: WorkerOptions,
        hooks: WorkerHooks | None = None,
    ) -> None:
        super().__init__(evaluator, handlers, options, lambda: ThreadPool("afl-handler"), hooks)

    def poll_once(self, limit: int, run: RunDefinition | None = None) -> int:
        """Claim up to `limit` tasks, of one run if it is given, and run their handlers. How many."""
        done = 0
        try:
            with event_loop.in_calling_thread(), capturing_logging(self._options.capture_logging):
                self.store_results([])  # what an earlier call could not store
                while done < limit and self._poll_one(run):
                    done += 1
        finally:
            self.runs.release_all()
        return done

    def _poll_one(self, run: RunDefinition | None) -> bool:
        with claiming():
            task = self._claim_one() if run is None else self._claim_one_of(run)
            if task is None:
                return False
            self._run(task)
        return True

    def _claim_one(self) -> TaskDefinition | None:
        names = [*self._handlers.names, *self._options.system_tasks]
        task = self._store.claim_task(names, self._options.task_list, **self._terms)
        if task is None and self._handlers.any_event:
            found = self._store.claim_tasks(
                [], self._options.task_list, limit=1, any_event=True, **self._terms
            )
            task = found[0] if found else None
        return task

    def _claim_one_of(self, run: RunDefinition) -> TaskDefinition | None:
        found = self._store.claim_tasks(
            self._handlers.names,
            run.task_list,
            limit=1,
            workflow_id=run.workflow_id,
            any_event=self._handlers.any_event,
            **self._terms,
        )
        return found[0] if found else None

    @property
    def _terms(self) -> _Claim:
        options = self._options
        lease_ms = options.lease_ms or self._store.lease_ms
        return _Claim(lease_ms=lease_ms, lock_ms=options.lock_ms, while_alive=True)

    def _run(self, task: TaskDefinition) -> None:
        if task.name in self._options.system_tasks:
            self._system_tasks.append(task)
            self._run_system_tasks()
        else:
            self._store.start_tasks([task])
            try:
                self.in_flight.start([task], here=True)
            except BaseException:  # an interrupt of the caller
                self._store.return_tasks(self.in_flight.give_up(), begun=True)
                raise
            self.store_results(self.in_flight.collect_now())

    def _claims_at_creation(self, task: TaskDefinition) -> bool:
        return False

    def _keep_leases(self) -> None:
        """Nothing to renew: see the class."""
