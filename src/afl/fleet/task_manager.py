"""The runs of one agent: each run executes the DAG of its workflow, tasks in parallel up to the limit of the agent."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afl.fleet.journal import RunJournal
from afl.fleet.messages import FetchedRun, Status
from afl.fleet.spool import Spool
from afl.fleet.task_attempt import Attempt, Outcome, TaskResources
from afl.fleet.workflow import ParameterValue, Workflow, bind, rendered
from afl.fleet.workflow_json import decode_workflow
from afl.kernel.dag import Change, Tracker
from afl.kernel.errors import InputError
from afl.kernel.ids import sortable_id

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _TaskProgress:
    """The instance and attempt of a task that run or come next."""

    instance: str
    attempt: int = 1


class DagRun:
    """One run of a DAG: tasks run in parallel up to `limit`; the end of a task starts those that it made ready."""

    def __init__(
        self,
        workflow: Workflow,
        params: Mapping[str, ParameterValue],
        journal: RunJournal,
        resources: TaskResources,
        limit: int,
    ) -> None:
        self._workflow, self._params = workflow, params
        self._journal, self._resources = journal, resources
        self._limit = min(limit, workflow.max_parallel or limit)
        self._tracker = Tracker(
            workflow.dag,
            allow_failure=[name for name, task in workflow.tasks.items() if task.allow_failure],
            always=[name for name, task in workflow.tasks.items() if task.always],
        )
        self._progress: dict[str, _TaskProgress] = {}
        self._active: dict[str, Attempt] = {}
        self._retry_timers: dict[str, asyncio.TimerHandle] = {}  # tasks that wait for their next attempt
        self._retry_ready: deque[str] = deque()
        self._errors: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._stopped: tuple[Status, str] | None = None
        self._task_stopped = False  # a task was stopped before its end

    async def run(self) -> Status:
        """Run to the end; the status is in the journal then."""
        self._journal.run(Status.RUNNING)
        self._record_pending(self._tracker.ready)
        self._fill()
        await self._over
        status, error = self._outcome()
        self._journal.run(status, error)
        return status

    def stop(self, status: Status, reason: str) -> None:
        """Start nothing more and stop what runs; the run then has this status. Only the first call counts."""
        if self._stopped is not None or self._over.done():
            return
        self._stopped = (status, reason)
        for name, timer in self._retry_timers.items():
            timer.cancel()
            self._retry_ready.append(name)
        self._retry_timers.clear()
        for attempt in self._active.values():
            attempt.stop(reason)
        self._fill()

    def _record_pending(self, names: Iterable[str]) -> None:
        for name in names:
            progress = self._progress[name] = _TaskProgress(sortable_id())
            self._journal.task(name, progress.instance, Status.PENDING)

    def _fill(self) -> None:
        """Start ready tasks; the run ends when nothing runs and nothing is ready."""
        while self._stopped is None and len(self._active) < self._limit:
            name = self._retry_ready.popleft() if self._retry_ready else self._tracker.take()
            if name is None:
                break
            self._start(name)
        if not self._active and (self._tracker.finished or self._stopped) and not self._over.done():
            self._over.set_result(None)

    def _start(self, name: str) -> None:
        progress = self._progress[name]
        task = rendered(self._workflow.tasks[name], self._params)
        self._active[name] = attempt = Attempt(
            self._resources, self._journal, name, task, progress.instance, progress.attempt
        )
        running = self._loop.create_task(self._run_one(name, attempt))
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def _run_one(self, name: str, attempt: Attempt) -> None:
        try:
            outcome = await attempt.run()
        except Exception as error:  # an internal error must fail this task, and not block the run
            _log.exception("task %s of %s could not be run", name, self._workflow.id)
            outcome = Outcome(False, error=f"the agent could not run it: {error!r}")
        del self._active[name]
        self._note(name, outcome)
        self._fill()

    def _note(self, name: str, outcome: Outcome) -> None:
        """Record the outcome of an attempt and its consequences."""
        progress = self._progress[name]
        status = Status.COMPLETED if outcome.ok else Status.FAILED
        if not outcome.ok and self._stopped is not None:
            status, self._task_stopped = Status.CANCELED, True
        self._journal.task(
            name,
            progress.instance,
            status,
            attempt=progress.attempt,
            exit_code=outcome.exit_code,
            error=outcome.error,
        )
        retries = self._workflow.tasks[name].retries
        if outcome.ok:
            self._changed(self._tracker.complete(name))
        elif self._stopped is None and progress.attempt < retries.attempts:
            self._retry_later(name, progress, retries.delay(progress.attempt))
        else:
            if not self._workflow.tasks[name].allow_failure:
                self._errors[name] = outcome.error
            self._changed(self._tracker.fail(name))

    def _retry_later(self, name: str, progress: _TaskProgress, seconds: float) -> None:
        """Schedule the next attempt, without a slot."""
        progress.instance, progress.attempt = sortable_id(), progress.attempt + 1
        self._journal.task(name, progress.instance, Status.PENDING, attempt=progress.attempt)
        self._retry_timers[name] = self._loop.call_later(seconds, self._retry, name)

    def _retry(self, name: str) -> None:
        del self._retry_timers[name]
        self._retry_ready.append(name)
        self._fill()

    def _changed(self, change: Change) -> None:
        if self._stopped is None:  # else unstarted tasks are recorded at the end
            self._record_pending(change.ready)
        reason = self._stopped[1] if self._stopped else "a task it depends on failed"
        for name in change.skipped:
            self._journal.task(name, sortable_id(), Status.SKIPPED, error=reason)

    def _outcome(self) -> tuple[Status, str]:
        if self._stopped is not None and (self._task_stopped or not self._tracker.finished):
            status, reason = self._stopped
            self._record_unstarted(reason)
            return status, reason
        if self._tracker.succeeded:
            return Status.COMPLETED, ""
        return Status.FAILED, "; ".join(f"{name}: {error}" for name, error in self._errors.items())

    def _record_unstarted(self, reason: str) -> None:
        """Give every task a final status: those that wait for a retry, and those that never started."""
        for name, state in self._tracker.states().items():
            if not state.is_final:
                progress = self._progress.get(name)
                again = name in self._retry_ready
                self._journal.task(
                    name,
                    progress.instance if progress else sortable_id(),
                    Status.CANCELED if again else Status.SKIPPED,
                    attempt=progress.attempt if progress else 1,
                    error=reason,
                )


class TaskManager:
    """`limit` bounds the tasks of each run; the caller bounds the number of runs."""

    def __init__(self, spool: Spool, limit: int, resources: TaskResources | None = None) -> None:
        self._spool = spool
        self._limit = limit
        self._resources = resources or TaskResources()
        self._dag_runs: dict[str, DagRun] = {}
        self._epochs: dict[str, int] = {}
        self._over: dict[str, asyncio.Event] = {}
        self._ended: dict[str, tuple[int, int]] = {}  # epoch, and the number of the record of its end

    @property
    def running(self) -> tuple[str, ...]:
        """The runs in progress."""
        return tuple(self._epochs)

    @property
    def held(self) -> Mapping[str, int]:
        """The held runs, each with its epoch: also those that ended, until the principal has acknowledged it."""
        for run_id, (_, seq) in tuple(self._ended.items()):
            if seq <= self._spool.acked:
                del self._ended[run_id]
        return {run_id: epoch for run_id, (epoch, _) in self._ended.items()} | self._epochs

    async def run(self, run: FetchedRun) -> Status:
        """Run a workflow to its end. Everything is reported to the spool; nothing waits for the principal."""
        self._epochs[run.run_id] = run.epoch
        await self._stop_earlier(run.run_id)
        if self._epochs.get(run.run_id) != run.epoch:
            return Status.CANCELED  # it was fetched once more meanwhile
        over = self._over[run.run_id] = asyncio.Event()
        try:
            return await self._run(run)
        finally:
            if self._epochs[run.run_id] == run.epoch:
                del self._epochs[run.run_id]
                self._ended[run.run_id] = (run.epoch, self._spool.next - 1)
            del self._over[run.run_id]
            self._dag_runs.pop(run.run_id, None)
            over.set()

    def stop(self, run_id: str, status: Status, reason: str) -> bool:
        """Stop a run; whether it is running."""
        dag_run = self._dag_runs.get(run_id)
        if dag_run is not None:
            dag_run.stop(status, reason)
        return dag_run is not None

    async def _stop_earlier(self, run_id: str) -> None:
        """A run that was taken from this agent and assigned to it again must not run twice at a time."""
        earlier = self._over.get(run_id)
        if earlier is not None:
            self.stop(run_id, Status.CANCELED, "this run was restarted")
            await earlier.wait()

    async def _run(self, run: FetchedRun) -> Status:
        try:
            workflow = decode_workflow(bytes(run.workflow))
            params = bind(workflow, run.params)
        except InputError as error:
            _log.error("run %s cannot be run: %s", run.run_id, error)
            RunJournal(self._spool, run, Workflow("", "", {})).run(Status.FAILED, str(error))
            return Status.FAILED
        journal = RunJournal(self._spool, run, workflow)
        journal.run(Status.PENDING)
        dag_run = self._dag_runs[run.run_id] = DagRun(workflow, params, journal, self._resources, self._limit)
        try:
            status = await dag_run.run()
        except Exception as error:  # an internal error: the run must end nevertheless
            _log.exception("run %s of %s could not be run", run.run_id, workflow.id)
            journal.run(Status.FAILED, f"the agent could not run it: {error!r}")
            return Status.FAILED
        _log.info("run %s of %s: %s", run.run_id, workflow.id, status)
        return status
