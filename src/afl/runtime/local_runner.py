"""Running a workflow and its handlers in one process, durably: a worker for the tasks of one run and its child runs.

Tasks that can be served here are claimed by the commit that creates them; their results are stored with the next one,
before any later handler starts. A kill at any moment loses no result that was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from afl.kernel import crashpoint
from afl.kernel.errors import FencedError
from afl.kernel.thread_pool import IDLE_SECONDS, ThreadPool
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskState, child_of
from afl.runtime.evaluation.run_observer import Observer
from afl.runtime.evaluation.session import Session
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.persistence.changes import EventDefinition
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.persistence.topics import RUNS_TOPIC, run_topic
from afl.runtime.program.program import Program
from afl.runtime.recovery.sweep import fire_timers, reclaim
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId
from afl.runtime.worker.claimer import seconds_until_due
from afl.runtime.worker.options import WorkerHooks, WorkerOptions
from afl.runtime.worker.results import TaskResult
from afl.runtime.worker.worker import Worker

_OPEN = (TaskState.PENDING, TaskState.RUNNING)
_GOES_ON = (RunnerState.CREATED, RunnerState.RUNNING)
_MOST_CHILDREN = 10_000
_OTHERS_SECONDS = 1.0


class _RunWorker(Worker):
    """Claims the tasks of one run and of its children, and runs a handler on the calling thread if it is alone."""

    session: Session

    def _claims_at_creation(self, task: TaskDefinition) -> bool:
        return self.in_flight.serves(task)

    def _expects_results(self, workflow_id: str) -> bool:
        return True  # the run is held to its end

    def _start(self, tasks: list[TaskDefinition]) -> None:
        run = self.session.run
        is_only_task = (
            len(tasks) == run.waiting == 1
            and not tasks[0].timeout_ms
            and not self.in_flight.running
            and len(self.runs.run_ids) == 1
        )
        self._keep_leases()
        self.in_flight.start(tasks, here=is_only_task)

    def follow(self, children: Iterable[WorkflowId] = ()) -> None:
        """Take up child runs: these, and those that were started here."""
        self._keep_leases()
        self.runs.children += children
        while self.runs.follow(self.in_flight.room):
            self._start_claimed()

    def unserved(self) -> list[RunDefinition]:
        """The held runs with steps that wait for more than handlers and child runs that go on here."""
        held = self.runs.held
        if len(held) == 1:
            return held if held[0].waiting > self.in_flight.running else []
        served = self.in_flight.by_run()
        served.update(run.parent for run in held if not run.parent_told)
        return [run for run in held if run.waiting > served[run.workflow_id]]

    def claim_more(self) -> None:
        """Claim tasks of the runs that there was no room for, or that an earlier process left behind."""
        for run in self.unserved():
            if self.in_flight.running >= self._options.concurrency:
                return
            self._claim_of(run)

    def _claim_of(self, run: RunDefinition) -> None:
        room = self.in_flight.room
        with claiming():
            tasks = self._store.claim_tasks(
                self._handlers.names,
                run.task_list,
                limit=room,
                lease_ms=self._store.lease_ms,
                workflow_id=run.workflow_id,
            )
            crashpoint.reach("claim.after")
            self._store.start_tasks(tasks)
        self._start(tasks)

    def close(self) -> None:
        """End the thread that renews leases."""
        self._keeper.close()


class LocalRunner:
    """Drives runs with handlers of this process, one at a time.

    `awaits` says of an open task that has no handler here whether somebody else will do it: then that is waited for.
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
        self._observer = observer
        self._awaits = awaits
        self._awaited: set[str] = set()
        self._has_retried = False
        hooks = WorkerHooks(stored=self._stored, retried=self._retried, started=self._started)
        options = WorkerOptions(concurrency=concurrency)
        self._worker = _RunWorker(
            evaluator, handlers, options, lambda: self._pool, hooks, write_log=self._store.save_log
        )

    @cached_property
    def _pool(self) -> ThreadPool:
        return ThreadPool("afl-handler")

    def close(self) -> None:
        """End the threads; handlers finish first, but for those whose time was up: they get a moment, no more."""
        self._worker.close()
        if "_pool" in vars(self):
            self._pool.shutdown(patience=None if self._worker.in_flight.running else IDLE_SECONDS)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(
        self, program: Program, inputs: Mapping[str, Any] | None = None, **options: Any
    ) -> ExecutionResult:
        """Start a run and work on it until it ends, or until only others can go on. InputError for bad inputs."""
        return self._drive(self._evaluator.begin(program, inputs, serves=self._worker.runs.serves, **options))

    def resume(self, workflow_id: WorkflowId) -> ExecutionResult:
        """Take up a run that stopped, wherever it stopped. HeldError if a live process works on it."""
        session = self._evaluator.take(workflow_id, self._worker.runs.serves)
        if session is None:
            return self._result_of(workflow_id)
        reclaim(self._evaluator)
        self._worker.runs.expect_timer(fire_timers(self._evaluator))
        return self._drive(session, self._open_children(session))

    def _open_children(self, session: Session) -> list[WorkflowId]:
        """The child runs, at any depth, that have not ended."""
        found: list[WorkflowId] = []
        above = [session.run.workflow_id] if session.context.program.may_start_runs else []
        while above:
            page = self._store.get_children(above.pop(), states=_GOES_ON, limit=_MOST_CHILDREN)
            below = [WorkflowId(run.workflow_id) for run in page]
            found += below
            above += below
        held = self._worker.runs.run_ids
        return [run for run in found if run not in held]

    # -- the loop ---------------------------------------------------------------------------------------------

    def _drive(self, session: Session, children: Sequence[WorkflowId] = ()) -> ExecutionResult:
        worker = self._worker
        worker.session, self._has_retried = session, False
        workflow_id = WorkflowId(session.run.workflow_id)
        if self._observer is not None:
            session.observe = self._observer.stored
            self._observer.began(workflow_id, session.run.workflow_name)
        worker.in_flight.accepts = True
        worker.runs.follows_children, worker.runs.children = session.context.program.may_start_runs, []
        worker.hold(session)
        while worker.runs.holds(session):
            worker.follow(children)
            children = []
            worker.claim_more()
            if worker.runs.holds(session) and not self._wait(session):
                worker.runs.release_all()
                stored = self._store.get_run(workflow_id)  # somebody may have canceled it meanwhile
                return self._evaluator.result(stored or session.run, session.iterations)
        if session.run.is_over:
            if worker.runs.follows_children:
                self._let_go()
            return self._evaluator.result(session.run, session.iterations)
        return self._taken_away(workflow_id)

    def _wait(self, session: Session) -> bool:
        """Wait for results, and store them; False if nothing can come any more."""
        running = self._worker.in_flight.running
        has_timer = self._worker.runs.timer_due is not None
        delay = self._delay(session) if self._has_retried or has_timer or not running else None
        if running or delay is not None:
            self._collect(session, delay)
            return True
        if not self._others_answer(session):
            return False
        self._wait_for_others(session)
        return True

    def _collect(self, session: Session, delay: float | None) -> None:
        """Store what the handlers returned, and what others did for this run meanwhile."""
        worker = self._worker
        while True:
            # Somebody else may answer, and does not wake us; a child run may have ended, or run out of time.
            follows = worker.runs.follows_children
            others = worker.runs.held if follows else worker.unserved()
            timeout = _OTHERS_SECONDS if others and delay is None else delay
            if others and (follows or self._awaits is not None) and timeout is not None:
                timeout = min(timeout, _OTHERS_SECONDS)
            results = worker.in_flight.collect(timeout)
            if not results:
                self._sweep()
            has_marks = bool(others and self._marks_of(others))
            if results or has_marks or delay is not None:
                break
        worker.store_results(results)
        if has_marks and worker.runs.holds(session):
            worker.advance_marked()

    def _sweep(self) -> None:
        """Child runs whose time is up, or that somebody ended and told nobody; tasks that wait for a turn of theirs."""
        reclaim(self._evaluator)

    def _marks_of(self, runs: Sequence[RunDefinition]) -> list[EventDefinition]:
        return self._store.get_marks_of([WorkflowId(run.workflow_id) for run in runs])

    def _let_go(self) -> None:
        """Nothing more is begun here: results that come now are stored for whoever goes on."""
        worker = self._worker
        worker.in_flight.accepts = False
        while worker.in_flight.running:
            worker.store_results(worker.in_flight.collect())
        worker.runs.release_all()

    def _taken_away(self, workflow_id: WorkflowId) -> ExecutionResult:
        """Somebody paused, canceled or took the run."""
        self._let_go()
        run = self._store.get_run(workflow_id)
        if run is None:
            raise FencedError(
                f"run {workflow_id} could not be stored: the id of a child run was taken in the meantime"
            )
        if run.is_over or run.state == RunnerState.PAUSED:
            return self._result_of(workflow_id)
        return self.resume(workflow_id)  # it is free again; HeldError if it is not

    def _result_of(self, workflow_id: WorkflowId) -> ExecutionResult:
        run = self._store.get_run(workflow_id)
        assert run is not None
        return self._evaluator.result(run, 1)

    # -- others -----------------------------------------------------------------------------------------------

    def _others_answer(self, session: Session) -> bool:
        """Whether something of this run goes on elsewhere, or is just being handed over, and will come back."""
        unserved = self._worker.unserved()
        tasks = [
            task
            for run in unserved
            for task in self._store.get_tasks_by_workflow(WorkflowId(run.workflow_id))
            if task.state in _OPEN
        ]
        expected = any(map(self._is_awaited, tasks))
        self._tell_awaited([task for task in tasks if task.via and expected])
        return expected or bool(unserved and self._marks_of(unserved))  # it came while we looked

    def _is_awaited(self, task: TaskDefinition) -> bool:
        child = self._store.get_run(WorkflowId(child_of(task))) if child_of(task) else None
        if child is not None:  # one that is not held here either
            return child.is_over or child.owner not in ("", self._store.owner_id)
        return self._awaits is not None and self._awaits(task)

    def _wait_for_others(self, session: Session) -> None:
        """Until something of theirs has come, or nothing can come any more."""
        workflow_id = WorkflowId(session.run.workflow_id)
        with self._store.subscribe([RUNS_TOPIC, run_topic(workflow_id)]) as subscription:
            while True:
                run = self._store.get_run(workflow_id)
                is_ours = (
                    run is not None and run.epoch == session.run.epoch and run.state == RunnerState.RUNNING
                )
                session.receive_signals()  # of a sender that died before it could
                if not is_ours:
                    self._tell_awaited([])
                    self._worker.advance(workflow_id)
                    return
                if self._worker.advance_marked():
                    self._tell_awaited([])
                    return
                if not self._others_answer(session) or self._delay(session) is not None:
                    return
                subscription.wait(_OTHERS_SECONDS)
                self._sweep()
                self._worker.follow(self._open_children(session))
                if self._worker.in_flight.running:  # handlers of what went on by that
                    self._tell_awaited([])
                    return

    def _delay(self, session: Session) -> float | None:
        """In how many seconds there may be something to claim again; None if nothing here can go on."""
        waiting = [run.workflow_id for run in self._worker.unserved()]
        delays = [seconds_until_due(self._store, self._handlers, run) for run in waiting]
        wait = min((delay for delay in delays if delay is not None), default=None)
        if wait == 0:
            self._worker.runs.timer_due = None
            self._worker.runs.expect_timer(fire_timers(self._evaluator))
        return wait

    # -- what is told -----------------------------------------------------------------------------------------

    def _tell_awaited(self, tasks: list[TaskDefinition]) -> None:
        waited = {task.uuid for task in tasks}
        if self._observer is not None and waited != self._awaited:
            self._observer.awaited(tasks)
        self._awaited = waited

    def _started(self, task: TaskDefinition) -> None:
        if self._observer is not None:
            self._observer.task_started(task)

    def _stored(self, result: TaskResult, problem: str | None) -> None:
        if self._observer is not None:
            self._observer.task_ended(result.task, problem)

    def _retried(self, result: TaskResult, message: str, delay_ms: int) -> None:
        self._has_retried = True
        if self._observer is not None:
            self._observer.task_retried(result.task, message, delay_ms)
