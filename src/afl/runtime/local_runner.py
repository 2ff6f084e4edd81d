"""Running a workflow and its handlers in one process, durably.

Tasks that can be served here are born claimed, in the commit that creates them; their results are stored with the next
one, before any later handler starts. One commit per round, and a kill at any moment loses no result that was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import Any

from afl.kernel import crashpoint
from afl.kernel.errors import FencedError
from afl.runtime import tracing
from afl.runtime.changes import EventDefinition, Outcome
from afl.runtime.entities import RunnerState, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.handler import Handlers
from afl.runtime.in_hand import Claim, Holding, claiming
from afl.runtime.outcome import completed, failed
from afl.runtime.policies import retry_delay
from afl.runtime.program import Program
from afl.runtime.run_observer import Observer
from afl.runtime.session import Session
from afl.runtime.step import StepDefinition
from afl.runtime.sweep import reclaim
from afl.runtime.topics import RUNS_TOPIC, run_topic
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.usage import BudgetExceeded
from afl.runtime.worker.in_flight import InFlightTasks
from afl.runtime.worker.lease_keeper import LeaseKeeper
from afl.runtime.worker.options import WorkerOptions
from afl.runtime.worker.results import TaskResult, error_text
from afl.runtime.worker.thread_pool import ThreadPool
from afl.runtime.worker.worker import Worker

_OPEN = (TaskState.PENDING, TaskState.RUNNING)
_OTHERS_SECONDS = 1.0
_STOP_SECONDS = 1.0  # for handlers that were told to stop; those that do not listen are left behind
_DUE_SECONDS = 0.01
_FULL_SECONDS = 0.2  # how often to look whether others gave up a slot of a concurrency key


class LocalRunner:
    """Drives runs with handlers of this process.

    `awaits` says of an open task that has no handler here whether somebody else will answer: then that is waited for.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        handlers: Handlers,
        *,
        concurrency: int = 8,
        observer: Observer | None = None,
        awaits: Callable[[TaskDefinition], bool] | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._handlers = handlers
        self._concurrency = concurrency
        self._observer = observer
        self._awaits = awaits
        self._put_back = False
        self._over_budget = ""
        self._last_done: list[TaskResult] = []
        self._at: tuple[Session, InFlightTasks] | None = None
        self._keeper = LeaseKeeper(evaluator.persistence, holding=self._holding, lost=self._take_away)

    @cached_property
    def _pool(self) -> ThreadPool:
        return ThreadPool("afl-handler")

    def close(self) -> None:
        """End the threads; handlers finish first, but for those whose time was up: they get a moment, no more."""
        self._keeper.close()
        if "_pool" in vars(self):
            at_work = self._at is not None and self._at[1].running > 0
            self._pool.shutdown(patience=None if at_work else _STOP_SECONDS)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(
        self, program: Program, inputs: Mapping[str, Any] | None = None, **options: Any
    ) -> ExecutionResult:
        """Start a run and work on it until it ends, or until only others can go on. InputError for bad inputs."""
        work = self._work()
        session = self._evaluator.begin(program, inputs, serves=work.serves, **options)
        return self._drive(session, work)

    def resume(self, workflow_id: WorkflowId) -> ExecutionResult:
        """Take up a run that stopped, wherever it stopped. HeldError if a live process works on it."""
        work = self._work()
        session = self._evaluator.take(workflow_id, work.serves)
        if session is None:
            run = self._store.get_run(workflow_id)
            assert run is not None
            return self._evaluator.result(run, 1)
        reclaim(self._evaluator)
        session.consume(self._store.get_marks(workflow_id))
        return self._drive(session, work)

    def _work(self) -> InFlightTasks:
        return InFlightTasks(self._store, self._handlers, lambda: self._pool, self._concurrency)

    def _holding(self) -> Holding:
        if self._at is None:
            return Holding()
        session, work = self._at
        answered = {(done.task.uuid, done.task.epoch) for done in self._last_done}
        return Holding(frozenset(work.claims() | answered), frozenset({session.run.workflow_id}))

    def _take_away(self, claims: set[Claim]) -> None:
        if self._at is not None:
            self._at[1].cancel(claims)

    def _drive(self, session: Session, work: InFlightTasks) -> ExecutionResult:
        self._at = session, work
        session.observe = lambda steps: self._stored(session, work, steps)
        if self._observer is not None:
            self._observer.began(session.run.workflow_id, session.run.workflow_name)
        try:
            self._work_through(session, work)
            if not session.run.is_over:
                session.close()
        except FencedError:
            return self._taken_away(session, work)
        if self._over_budget:
            self._store.pause_run(WorkflowId(session.run.workflow_id), self._over_budget)
            session.run.state = RunnerState.PAUSED
        return self._evaluator.result(session.run, session.iterations)

    def _work_through(self, session: Session, work: InFlightTasks) -> None:
        with ExitStack() as stack:
            while True:
                session.advance()
                session.settle()
                if session.run.waiting and not session.run.is_over:
                    self._start(session, work)
                wait = self._delay(session) if self._put_back or not work.running else None
                done = not work.running and (wait is None or self._over_budget)
                if done and not self._others_answer(session):
                    break
                if self._keeper.idle:
                    stack.enter_context(self._keeper)
                if done:
                    self._wait_for_others(session)
                else:
                    self._collect(session, work, wait)

    def _others_answer(self, session: Session) -> bool:
        """Whether something of this run goes on elsewhere, or is just being handed over, and will come back."""
        run = session.run
        if self._awaits is None or run.is_over or not run.waiting or self._over_budget:
            return False
        workflow_id = WorkflowId(run.workflow_id)
        tasks = self._store.get_tasks_by_workflow(workflow_id)
        expected = any(task.state in _OPEN and self._awaits(task) for task in tasks)
        return expected or bool(self._store.get_marks(workflow_id, limit=1))  # it came while we looked

    def _wait_for_others(self, session: Session) -> None:
        """Until something of theirs has come, or nothing can come any more."""
        workflow_id = WorkflowId(session.run.workflow_id)
        with self._store.listen([RUNS_TOPIC, run_topic(workflow_id)]) as ear:
            while True:
                marks = self._store.get_marks(workflow_id)
                if marks:
                    session.consume(marks)
                    return
                run = self._store.get_run(workflow_id)
                if run is None or run.epoch != session.run.epoch or run.state != RunnerState.RUNNING:
                    raise FencedError(f"run {workflow_id} was paused, cancelled or taken")
                if not self._others_answer(session) or self._delay(session) is not None:
                    return
                ear.wait(_OTHERS_SECONDS)

    def _taken_away(self, session: Session, work: InFlightTasks) -> ExecutionResult:
        """Somebody paused, cancelled or took the run: what handlers answer now is left for whoever goes on."""
        others = Worker(self._evaluator, self._handlers, WorkerOptions(), lambda: self._pool)
        others.store_results(self._last_done)
        while work.running:
            others.store_results(work.collect())
        others.drain(0)
        run = self._store.get_run(WorkflowId(session.run.workflow_id))
        if run is not None and (run.is_over or run.state == RunnerState.PAUSED):
            return self._evaluator.result(run, session.iterations)
        # It was only shaken off; HeldError if it is not free.
        return self.resume(WorkflowId(session.run.workflow_id))

    def _stored(self, session: Session, work: InFlightTasks, steps: list[StepDefinition]) -> None:
        """After a commit: what was created in it may begin, though the evaluation goes on."""
        if self._observer is not None:
            self._observer.stored(steps)
        if not session.run.settled:
            self._hand_out(session.tasks, work)

    def _start(self, session: Session, work: InFlightTasks) -> None:
        tasks = session.tasks
        room = work.running < self._concurrency and not self._over_budget
        if not tasks and room and session.run.waiting > work.running:
            tasks = self._claim(session, work)
        alone = len(tasks) == 1 and session.run.waiting == 1 and not tasks[0].timeout_ms
        if alone and self._keeper.idle:
            with self._keeper:
                self._hand_out(tasks, work, here=True)
        else:
            self._hand_out(tasks, work, here=alone)

    def _hand_out(self, tasks: list[TaskDefinition], work: InFlightTasks, *, here: bool = False) -> None:
        if self._observer is not None:
            for task in tasks:
                self._observer.task_started(task)
        work.start(tasks, here=here)

    def _claim(self, session: Session, work: InFlightTasks) -> list[TaskDefinition]:
        """Tasks of this run that there was no room for, or that an earlier process left behind."""
        run, lease_ms = session.run, self._store.lease_ms
        limits: dict[str, Any] = {"limit": work.room, "lease_ms": lease_ms, "workflow_id": run.workflow_id}
        with claiming():
            tasks = self._store.claim_tasks(self._handlers.names, run.task_list, **limits)
            crashpoint.reach("claim.after")
            self._store.start_tasks(tasks)
        return tasks

    def _delay(self, session: Session) -> float | None:
        """In how many seconds there may be something to claim again; None if nothing here can go on."""
        run = session.run
        if run.is_over or not run.waiting:
            return None
        workflow_id = WorkflowId(run.workflow_id)
        due = self._store.next_due(workflow_id=workflow_id)
        if due is not None:
            return due / 1000
        held_back = self._store.get_held_back(workflow_id)
        mine = [task for task in held_back if not task.via and self._handlers.serves(task.name)]
        if any(task.not_before and not task.hold for task in mine):
            return _DUE_SECONDS  # its delay ended since we looked for something to claim
        return _FULL_SECONDS if any(task.hold == TaskHold.CONCURRENCY for task in mine) else None

    def _put_off(self, done: TaskResult, work: InFlightTasks) -> bool:
        """Put a task back whose failure the workflow forgives, or which the run has no budget for."""
        if isinstance(done.error, BudgetExceeded):
            self._over_budget = str(done.error)
            work.accepts = False
            self._store.return_tasks([done.task])
            return True
        delay = None if done.error is None else retry_delay(done.task, done.error_type)
        if delay is None:
            return False
        message = error_text(done.error) if done.error is not None else ""
        self._put_back = True
        self._store.requeue(done.task, delay, {"message": message, "type": done.error_type})
        if self._observer is not None:
            self._observer.task_retried(done.task, message, delay)
        return True

    def _collect(self, session: Session, work: InFlightTasks, wait: float | None) -> None:
        """Deliver what the handlers have answered, and what others did for this run meanwhile."""
        marks: list[EventDefinition] = []
        while not marks:
            others = session.run.waiting > work.running  # somebody else may answer, and does not wake us
            patience = _OTHERS_SECONDS if others and wait is None else wait
            if others and self._awaits is not None and patience is not None:
                patience = min(patience, _OTHERS_SECONDS)
            self._last_done = work.collect(patience)
            if others:
                marks = self._store.get_marks(WorkflowId(session.run.workflow_id))
            if self._last_done or wait is not None:
                break
        done = [each for each in self._last_done if not self._put_off(each, work)]
        outcomes = [self._outcome(session, each) for each in done]
        crashpoint.reach("deliver.before")
        session.deliver(outcomes)
        if marks:
            session.consume(marks)

    def _outcome(self, session: Session, done: TaskResult) -> Outcome:
        task, error = done.task, done.error
        step = session.context.require_step(StepId(task.step_id))
        if error is not None:
            outcome = failed(step, task, error_text(error), done.error_type)
        else:
            outcome = completed(session.context.program, step, task, done.value)
        closed = outcome.task or task
        problem = closed.error["message"] if closed.error else None
        tracing.task_ended(closed, problem)
        if self._observer is not None:
            self._observer.task_ended(task, problem)
        return outcome
