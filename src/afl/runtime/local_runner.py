"""Running a workflow and its handlers in one process, durably.

The session keeps the tasks it can serve: they are born claimed, in the commit that creates them, and their results
are stored with the next commit, before any later handler starts. One commit per round of work, and a kill at any
moment loses no result that was committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Protocol

from afl.kernel import crashpoint
from afl.kernel.lease import LEASE_MS
from afl.runtime.changes import Outcome
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.handler import HandlerContext, Handlers
from afl.runtime.lease_keeper import LeaseKeeper
from afl.runtime.outcome import completed, failed
from afl.runtime.program import Program
from afl.runtime.session import Session
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId


class Observer(Protocol):
    """Somebody who watches a run, such as a progress display. Called from the thread that drives the run."""

    def began(self, workflow_id: str, workflow_name: str) -> None:
        """The run exists."""

    def stored(self, steps: list[StepDefinition]) -> None:
        """These steps were stored as they stand now."""

    def task_started(self, task: TaskDefinition) -> None:
        """A handler begins."""

    def task_ended(self, task: TaskDefinition, error: str | None) -> None:
        """A handler ended."""


class LocalRunner:
    """Drives runs with handlers of this process."""

    def __init__(
        self,
        evaluator: Evaluator,
        handlers: Handlers,
        *,
        concurrency: int = 8,
        observer: Observer | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._handlers = handlers
        self._concurrency = concurrency
        self._observer = observer
        self._keeper = LeaseKeeper(evaluator.persistence)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._concurrency, thread_name_prefix="afl-handler")

    def close(self) -> None:
        """End the threads; handlers that run finish first."""
        self._keeper.close()
        if "_pool" in vars(self):
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(
        self, program: Program, inputs: Mapping[str, Any] | None = None, **options: Any
    ) -> ExecutionResult:
        """Start a run and work on it until it ends, or until only others can go on. InputError for bad inputs."""
        session = self._evaluator.begin(
            program, inputs, serves=self._handlers.serves, observe=self._stored, **options
        )
        return self._drive(session)

    def resume(self, workflow_id: WorkflowId) -> ExecutionResult:
        """Take up a run that stopped, wherever it stopped. HeldError if a live process works on it."""
        session = self._evaluator.take(workflow_id, self._handlers.serves, self._stored)
        if session is None:
            run = self._store.get_run(workflow_id)
            assert run is not None
            return self._evaluator.result(run, 1)
        self._store.reclaim()
        session.consume(self._store.get_marks(workflow_id))
        return self._drive(session)

    def _drive(self, session: Session) -> ExecutionResult:
        if self._observer is not None:
            self._observer.began(session.run.workflow_id, session.run.workflow_name)
        work: dict[Future[Any], TaskDefinition] = {}
        try:
            while True:
                session.advance()
                session.settle()
                with self._keeper if session.run.waiting else nullcontext():
                    self._start(session, work)
                    if not work:
                        break
                    self._collect(session, work)
        finally:
            for future in work:
                future.cancel()
        if not session.run.is_over:
            session.close()
        return self._evaluator.result(session.run, session.iterations)

    def _start(self, session: Session, work: dict[Future[Any], TaskDefinition]) -> None:
        tasks = session.tasks
        if not tasks and not work and not session.run.is_over:
            tasks = self._claim(session)
        alone = len(tasks) == 1 and session.run.waiting == 1
        for task in tasks:
            if self._observer is not None:
                self._observer.task_started(task)
            work[self._call_here(task) if alone else self._pool.submit(self._call, task)] = task

    def _call_here(self, task: TaskDefinition) -> Future[Any]:
        """Run a handler that nothing else waits beside on this thread: no hand-over between threads."""
        future: Future[Any] = Future()
        try:
            future.set_result(self._call(task))
        except Exception as error:
            future.set_exception(error)
        return future

    def _claim(self, session: Session) -> list[TaskDefinition]:
        """Tasks of this run that an earlier process left behind."""
        run = session.run
        tasks = self._store.claim_tasks(
            self._handlers.names, run.task_list, limit=1000, lease_ms=LEASE_MS, workflow_id=run.workflow_id
        )
        crashpoint.reach("claim.after")
        self._store.start_tasks(tasks)
        return tasks

    def _call(self, task: TaskDefinition) -> Any:
        each = self._handlers.find(task.name)
        assert each is not None  # only tasks that are served are kept
        context = HandlerContext(task.uuid, task.step_id, task.workflow_id, task.name, task.deliveries)
        crashpoint.reach("handler.before")
        answer = each(task.data or {}, context)
        crashpoint.reach("handler.after")
        return answer

    def _collect(self, session: Session, work: dict[Future[Any], TaskDefinition]) -> None:
        """Wait for at least one handler, and deliver everything that is done by then."""
        done, _ = wait(work, return_when=FIRST_COMPLETED)
        outcomes = [self._outcome(session, future, work.pop(future)) for future in done]
        crashpoint.reach("deliver.before")
        session.deliver(outcomes)
        marks = (
            self._store.get_marks(WorkflowId(session.run.workflow_id))
            if session.run.waiting > len(work)
            else []
        )
        if marks:
            session.consume(marks)

    def _outcome(self, session: Session, future: Future[Any], task: TaskDefinition) -> Outcome:
        step = session.context.require_step(StepId(task.step_id))
        try:
            answer = future.result()
        except Exception as error:
            outcome = failed(step, task, str(error) or type(error).__name__, type(error).__name__)
        else:
            outcome = completed(session.context.program, step, task, {} if answer is None else answer)
        if self._observer is not None:
            problem = outcome.task.error if outcome.task is not None else None
            self._observer.task_ended(task, problem["message"] if problem else None)
        return outcome

    def _stored(self, steps: list[StepDefinition]) -> None:
        if self._observer is not None:
            self._observer.stored(steps)
