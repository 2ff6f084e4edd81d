"""The worker: wait, claim, run the handler, store the results and advance the runs, release.

One thread does all of that but the handlers, which have threads of their own. AgentPoller, RunnerService and `afl run`
configure it. Everything that it asks of the evaluator goes through `continue_step` and `fail_step`, once per task; what
is batched is the commit.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from afl.kernel import telemetry
from afl.kernel.backoff import Backoff
from afl.kernel.clock import wall_ms
from afl.kernel.error_text import error_text
from afl.kernel.errors import StoreError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.notify import Subscription
from afl.kernel.thread_pool import Threads
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.evaluation.session import Session
from afl.runtime.evaluator import Evaluator
from afl.runtime.monitoring import tracing
from afl.runtime.persistence.held_claims import Holding
from afl.runtime.persistence.topics import CANCEL_TOPIC, RUNS_TOPIC, tasks_topic
from afl.runtime.persistence.usage import BudgetExceeded
from afl.runtime.program.policies import retry_delay
from afl.runtime.recovery.stray_claims import StrayClaims
from afl.runtime.recovery.sweep import fire_timers, reclaim
from afl.runtime.task_handlers.capture import capturing_logging
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.log_writer import LogWriter
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.claimer import Claimer
from afl.runtime.worker.held_runs import HeldRuns
from afl.runtime.worker.in_flight import InFlightTasks
from afl.runtime.worker.lease_keeper import LeaseKeeper
from afl.runtime.worker.options import PeriodicJobs, WorkerHooks, WorkerOptions
from afl.runtime.worker.results import TaskResult, closed_task, requeue

_log = logging.getLogger(__name__)

_SWEEP_SECONDS = 0.5  # how often to look for dead owners
_RELEASE_SECONDS = 0.06  # how soon to release runs that do not change
_RETRY = Backoff(0.1, cap=5.0)
_SIGNAL_SECONDS = 1.0  # how soon to notice a signal that came at a bad moment


class Worker:
    """See the module. `threads` gives those of the handlers, once it is asked.

    What handlers log is stored in batches, or at once by `write_log`. Coroutine handlers run on `loop`, or on the loop
    that all handlers of the process share.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        handlers: Handlers,
        options: WorkerOptions,
        threads: Callable[[], Threads],
        hooks: WorkerHooks | None = None,
        *,
        write_log: Callable[[LogDefinition], None] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._handlers = handlers
        self._options = options
        self._hooks = hooks or WorkerHooks()
        self._topic = tasks_topic(options.task_list)
        self._subscription: Subscription | None = None
        self._stopping = threading.Event()
        self._failures = 0  # of the store, in a row
        self.abandoned = 0  # handlers that had not returned when `drain` ended
        self._logs = LogWriter(self._store)
        self.in_flight = InFlightTasks(
            self._store,
            handlers,
            threads,
            options.concurrency,
            write=write_log or self._logs.write,
            write_soon=self._logs.write_soon,
            notify=self.wake,
            loop=loop,
            lease_ms=options.lease_ms,
            started=self._hooks.started,
        )
        self.runs = HeldRuns(evaluator, self._claims_at_creation, self._expects_results, self._hooks.stored)
        self._claimer = Claimer(self._store, handlers, options)
        self._results: list[TaskResult] = []  # collected, and not reported yet
        self._to_close: list[
            tuple[TaskResult, TaskDefinition]
        ] = []  # of tasks without a step; not stored yet
        self._system_tasks: list[TaskDefinition] = []
        self._not_marked: list[TaskDefinition] = []  # started, which the store does not know yet
        self._keeper = LeaseKeeper(
            self._store,
            options.lock_ms,
            every_ms=options.lock_every_ms,
            lease_ms=options.lease_ms,
            holding=self._holding,
            lost=self.in_flight.cancel,
        )
        self._stray_claims = StrayClaims(self._store, options.task_list, self._may_claim)
        self._periodic_jobs = PeriodicJobs(lambda: self._hooks.periodic_jobs)
        self._reachable_since = time.monotonic()  # since when the store has answered
        self._look_for_runs = True
        self._polled = self._swept = -1e9

    # -- the loop ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until `stop`, on a thread of its own: an interrupt of the caller ends the wait, not a commit."""
        problems: list[BaseException] = []

        def loop() -> None:
            try:
                with capturing_logging(self._options.capture_logging):
                    self._loop()
            except BaseException as error:
                problems.append(error)

        thread = JoinableThread(loop, "afl-worker")
        try:
            thread.start()
            # Python runs the handler of a signal that comes just before a wait only after that wait.
            while thread.is_alive():
                thread.join(_SIGNAL_SECONDS)
        finally:
            self.stop()
            thread.join()
        if problems:
            raise problems[0]

    def _loop(self) -> None:
        topics = [self._topic, CANCEL_TOPIC, RUNS_TOPIC]
        with self._store.subscribe(topics, early=[self._topic]) as subscription:
            self._subscription = subscription
            while not self._stopping.is_set():
                try:
                    self._keep_leases()
                    self._receive(subscription.wait(self._timeout()))
                    if not self._stopping.is_set():
                        self.round()
                    self._failures = 0
                except StoreError as error:
                    self._failures += 1
                    self._reachable_since = time.monotonic()
                    self._stray_claims.suspect(self.runs.take_unanswered())
                    telemetry.count("afl.store.errors")
                    _log.warning("the store fails, trying again: %s", error)
                    self._stopping.wait(_RETRY.delay(self._failures))

    def stop(self) -> None:
        """End `run` after the present round; from any thread."""
        self._stopping.set()
        self.wake()

    def wake(self) -> None:
        """End the wait for a notification; from any thread."""
        subscription = self._subscription
        if subscription is not None:
            subscription.wake()

    def _receive(self, topics: frozenset[str]) -> None:
        if CANCEL_TOPIC in topics and self.in_flight.running:
            self._keeper.check_now()
        if RUNS_TOPIC in topics:
            self._look_for_runs = True
        if self._topic in topics:
            self._claimer.notify()

    def _timeout(self) -> float:
        """How long there is nothing to do unless a notification comes."""
        if self._look_for_runs or self._system_tasks or self._results or self.runs.has_unstored:
            return 0.0
        now = time.monotonic()
        timeouts = [self._polled + self._options.poll_seconds - now, self._swept + _SWEEP_SECONDS - now]
        for timeout in (self.in_flight.next_deadline(), self._claimer.timeout(self.in_flight.room)):
            if timeout is not None:
                timeouts.append(timeout)
        if self.runs.holds_anything and not self.in_flight.running:
            timeouts.append(_RELEASE_SECONDS)
        if self.runs.timer_due is not None:
            timeouts.append(self.runs.timer_due - now)
        return max(0.0, min(timeouts))

    def round(self) -> None:
        """One pass through the pipeline."""
        now = time.monotonic()
        if now >= self._polled + self._options.poll_seconds:
            self._polled = now
            self._look_for_runs = self._claimer.wanted = True
            self._periodic_jobs.fall_due(now)
        self.store_results(self.in_flight.collect_now())
        self._claim()
        self._sweep(now)
        if self.runs.timer_due is not None and now >= self.runs.timer_due:
            self._fire_timers()
        if self._look_for_runs:
            self._advance_runs()
        self.runs.release_idle()
        self._start_claimed()
        self._mark_started()
        self._logs.flush()

    # -- claiming ---------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        tasks = self._claimer.claim(self.in_flight.room)
        self._measure(tasks, notified=self._claimer.notified)
        self._claimer.notified = False
        self._start(tasks)
        self._run_system_tasks()

    def _measure(self, tasks: list[TaskDefinition], *, notified: bool = False) -> None:
        """Record how many were claimed, and how long they waited for their first claim."""
        if not tasks or not telemetry.is_metering():
            return
        task_list, now = self._options.task_list, wall_ms()
        telemetry.count("afl.claims", len(tasks), list=task_list)
        for task in tasks:
            if task.deliveries <= 1:
                waited = max(0, now - task.created) / 1000
                telemetry.record("afl.claim.wait.seconds", waited, list=task_list)
                if notified:
                    telemetry.record("afl.doorbell.lag.seconds", waited, list=task_list)

    def _start(self, tasks: list[TaskDefinition]) -> None:
        """Run the handlers of claimed tasks; tasks of the system are put aside for this thread."""
        self.in_flight.forget_offers()
        if tasks:
            system = [task for task in tasks if task.name in self._options.system_tasks]
            others = [task for task in tasks if task.name not in self._options.system_tasks]
            self._system_tasks += system
            self._not_marked += [task for task in others if not task.started]
            self.in_flight.start(others)
            self._keep_leases()

    def _start_claimed(self) -> None:
        """Run the handlers of tasks that were claimed at their creation."""
        tasks = self.runs.take_claimed()
        self._measure(tasks)
        self._start(tasks)

    def _run_system_tasks(self) -> None:
        """Run the tasks of the system; what the store kept from being done is tried again."""
        while self._system_tasks and self._hooks.run_system_task is not None:
            self._hooks.run_system_task(self._system_tasks[0])
            del self._system_tasks[0]

    def _mark_started(self) -> None:
        """Store that handlers have started; those that have returned by now need no mark."""
        if self._not_marked and not self._claimer.wanted:
            running = self.in_flight.unfinished()
            self._store.start_tasks([t for t in self._not_marked if (t.uuid, t.epoch) in running])
            self._not_marked = []
        elif len(self._not_marked) > self.in_flight.limit:
            self._not_marked = self._not_marked[-self.in_flight.limit :]

    def _may_claim(self, name: str) -> bool:
        return name in self._options.system_tasks or self._handlers.serves(name)

    def _claims_at_creation(self, task: TaskDefinition) -> bool:
        """Whether a task that is created here is claimed by its commit: only when nobody older waits for a slot."""
        return (
            not self._claimer.wanted
            and not self._stopping.is_set()
            and task.task_list_name == self._options.task_list
            and self.in_flight.serves(task)
        )

    # -- results ----------------------------------------------------------------------------------------------

    def store_results(self, results: list[TaskResult]) -> None:
        """Report results to the evaluator and store them. What could not be stored is kept for the next call."""
        self._results += results
        if not self._results and not self._to_close and not self.runs.has_unstored:
            return
        self._logs.flush()  # who sees the outcome of an attempt finds what it wrote
        with self._evaluator.batch(self.runs):
            while self._results:
                self._report(self._results[0])
                del self._results[0]
        self._close_tasks()
        self._start_claimed()
        self._keep_leases()

    def _report(self, result: TaskResult) -> None:
        """Say what is to become of a result: the step continues or fails, or the task is tried again."""
        task, error = result.task, result.error
        if isinstance(error, BudgetExceeded):
            self._store.return_tasks([task])
            self._store.pause_run(WorkflowId(task.workflow_id), str(error))
        elif error is not None and self._retry(result, error):
            return
        elif not task.step_id:
            self._to_close.append((result, closed_task(result)))
        else:
            self._report_step(result, StepId(task.step_id))

    def _report_step(self, result: TaskResult, step_id: StepId) -> None:
        self.runs.reporting = result
        try:
            if result.error is None:
                self._evaluator.continue_step(step_id, result.value)
            else:
                self._evaluator.fail_step(step_id, error_text(result.error))
        except StoreError:
            raise
        except Exception as error:  # of an evaluator that somebody has extended
            self.runs.report(failure=error_text(error), error_type=type(error).__name__)

    def _retry(self, result: TaskResult, error: BaseException) -> bool:
        delay = retry_delay(result.task, result.error_type, result.error_bases, result.retry_after)
        if delay is None:
            return False
        requeue(self._store, result, delay)
        message = error_text(error)
        if self._hooks.retried is not None:
            self._hooks.retried(result, message, delay)
        else:
            self._hooks.stored(result, f"{message}; next attempt in {delay} ms")
        return True

    def _close_tasks(self) -> None:
        """Store the results of tasks that no step waits for."""
        if self._to_close:
            self._store.close_tasks([task for _, task in self._to_close])
            closed, self._to_close = self._to_close, []
            for result, task in closed:
                problem = task.error["message"] if task.error else None
                tracing.task_ended(task, problem)
                self._hooks.stored(result, problem)

    # -- runs -------------------------------------------------------------------------------------------------

    def hold(self, session: Session) -> None:
        """Hold a run that the caller has taken or begun, and advance it."""
        self.runs.hold(session)
        self.advance(session.run.workflow_id)

    def advance(self, workflow_id: str) -> None:
        """Advance a run, and run the handlers of the tasks that it creates."""
        self._keep_leases()
        self.runs.advance(workflow_id)
        self._start_claimed()

    def advance_marked(self) -> int:
        """Advance held runs that others stored results for, and run the handlers; how many runs there were."""
        self._keep_leases()
        advanced = self.runs.advance_marked()
        self._start_claimed()
        return advanced

    def _advance_runs(self) -> None:
        """Advance held runs that others stored results for, and runs that nobody holds."""
        self._look_for_runs = False
        self._keeper.want(True)  # a large batch may take longer than a lease
        self.runs.advance_marked()
        if self._options.evaluates:
            self._look_for_runs = self.runs.advance_due() > 0  # there may be more
        self._start_claimed()
        self._claim()
        self._keep_leases()

    def _expects_results(self, workflow_id: str) -> bool:
        """Whether results for a run will come soon: its tasks are in flight here.

        Other workers may claim its queued tasks, and would have to leave their results to this one.
        """
        return self.in_flight.has_task_of(workflow_id)

    # -- leases and sweeps ------------------------------------------------------------------------------------

    def _keep_leases(self) -> None:
        """Renew leases as long as anything is held, and only then."""
        held = self.in_flight.running or self.runs.holds_anything
        self._keeper.want(bool(held or self._system_tasks or self._results or self._to_close))

    def _holding(self) -> Holding:
        """What is held, for the thread that renews it."""
        others = [
            *self.runs.unstored_tasks(),
            *list(self._system_tasks),
            *(result.task for result in list(self._results)),
            *(task for _, task in list(self._to_close)),
        ]
        claims = self.in_flight.claims() | {(task.uuid, task.epoch) for task in others}
        return Holding(frozenset(claims), self.runs.run_ids)

    def _sweep(self, now: float) -> None:
        """Take away the work of dead owners, and do what is due periodically."""
        if now >= self._swept + _SWEEP_SECONDS:
            self._swept = now
            self._claimer.wanted = True  # a lost notification costs no more than this
            if reclaim(self._evaluator, expired=self._may_judge_leases(now)):
                self._look_for_runs = True
            self._fire_timers()
            self._stray_claims.give_back()
        busy = self.in_flight.is_quick and self.in_flight.running > 0
        self._periodic_jobs.run(now, busy=self._claimer.wanted or busy)

    def _fire_timers(self) -> None:
        self.runs.timer_due = None
        self.runs.expect_timer(fire_timers(self._evaluator))

    def _may_judge_leases(self, now: float) -> bool:
        """Whether owners have had the time to renew since the store was last away: that time does not count."""
        return now - self._reachable_since > self._store.run_lease_ms / 2000

    # -- the end ----------------------------------------------------------------------------------------------

    def drain(self, seconds: float) -> None:
        """Claim no more, return what has not started, wait for the rest, and then give up what is not done.

        What is given up is fenced: another worker does it again, and a late result is refused.
        """
        self._stopping.set()
        until = time.monotonic() + seconds
        not_started = [*self._system_tasks, *self.in_flight.unstarted(), *self.runs.take_claimed()]
        self._system_tasks = []
        try:
            self._keep_leases()
            _retry_until(until, partial(self._store.return_tasks, not_started))
            while self._is_unfinished and (left := until - time.monotonic()) > 0:
                self._store_last_results(self.in_flight.collect(left) if self.in_flight.running else [])
            given_up = self.in_flight.give_up()
            self.abandoned = len(given_up)
            self._store.return_tasks(given_up, begun=True)
            self._logs.flush()
            self.runs.release_all()
        finally:
            self._keeper.close()

    @property
    def _is_unfinished(self) -> bool:
        return bool(self.in_flight.running or self._results or self._to_close or self.runs.has_unstored)

    def _store_last_results(self, results: list[TaskResult]) -> None:
        try:
            self.store_results(results)
            self._logs.flush()
        except StoreError as error:
            _log.warning("the store fails, trying again: %s", error)
            time.sleep(_RETRY.delay(1))


def _retry_until(until: float, work: Callable[[], object]) -> None:
    """Do it, and again while the store fails, as long as there is time (`until`, on the monotonic clock)."""
    failures = 0
    while True:
        try:
            work()
            return
        except StoreError as error:
            failures += 1
            wait = min(_RETRY.delay(failures), until - time.monotonic())
            if wait <= 0:
                raise
            _log.warning("the store fails, trying again: %s", error)
            time.sleep(wait)
