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
from afl.fleet.task_attempt import Attempt, Outcome, Workplace
from afl.fleet.workflow import ParameterValue, Workflow, bind, rendered
from afl.fleet.workflow_json import decode_workflow
from afl.kernel.dag import Change, Tracker
from afl.kernel.errors import InputError
from afl.kernel.ids import sortable_id

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Place:
    """Where a task of the run stands: the instance and attempt that come next or are under way."""

    instance: str
    attempt: int = 1


class RunWalk:
    """Tasks run in parallel up to `limit`; nothing is polled: the end of a task starts those it made ready."""

    def __init__(
        self,
        workflow: Workflow,
        params: Mapping[str, ParameterValue],
        journal: RunJournal,
        workplace: Workplace,
        limit: int,
    ) -> None:
        self._workflow, self._params = workflow, params
        self._journal, self._workplace = journal, workplace
        self._limit = min(limit, workflow.max_parallel or limit)
        self._tracker = Tracker(
            workflow.dag,
            allow_failure=[name for name, task in workflow.tasks.items() if task.allow_failure],
            always=[name for name, task in workflow.tasks.items() if task.always],
        )
        self._places: dict[str, _Place] = {}
        self._active: dict[str, Attempt] = {}
        self._resting: dict[str, asyncio.TimerHandle] = {}  # tasks that wait for their next attempt
        self._rested: deque[str] = deque()
        self._errors: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._stopped: tuple[Status, str] | None = None
        self._cut = False  # a task was ended before its time

    async def run(self) -> Status:
        """Walk to the end; the status is in the journal by then."""
        self._journal.run(Status.RUNNING)
        self._announce(self._tracker.ready)
        self._fill()
        await self._over
        status, error = self._outcome()
        self._journal.run(status, error)
        return status

    def stop(self, status: Status, reason: str) -> None:
        """Start nothing more and end what runs; the run then has this status. Only the first call counts."""
        if self._stopped is not None or self._over.done():
            return
        self._stopped = (status, reason)
        for name, timer in self._resting.items():
            timer.cancel()
            self._rested.append(name)
        self._resting.clear()
        for attempt in self._active.values():
            attempt.stop(reason)
        self._fill()

    def _announce(self, names: Iterable[str]) -> None:
        for name in names:
            place = self._places[name] = _Place(sortable_id())
            self._journal.task(name, place.instance, Status.PENDING)

    def _fill(self) -> None:
        """Start what may start; the walk is over when nothing runs and nothing is to come."""
        while self._stopped is None and len(self._active) < self._limit:
            name = self._rested.popleft() if self._rested else self._tracker.take()
            if name is None:
                break
            self._start(name)
        if not self._active and (self._tracker.finished or self._stopped) and not self._over.done():
            self._over.set_result(None)

    def _start(self, name: str) -> None:
        place = self._places[name]
        task = rendered(self._workflow.tasks[name], self._params)
        self._active[name] = attempt = Attempt(
            self._workplace, self._journal, name, task, place.instance, place.attempt
        )
        running = self._loop.create_task(self._run_one(name, attempt))
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def _run_one(self, name: str, attempt: Attempt) -> None:
        try:
            outcome = await attempt.run()
        except Exception as error:  # a defect of ours must fail this task, and not hold the run for ever
            _log.exception("task %s of %s could not be run", name, self._workflow.id)
            outcome = Outcome(False, error=f"the agent could not run it: {error!r}")
        del self._active[name]
        self._note(name, outcome)
        self._fill()

    def _note(self, name: str, outcome: Outcome) -> None:
        """Record how an attempt ended, and what follows from it."""
        place = self._places[name]
        status = Status.COMPLETED if outcome.ok else Status.FAILED
        if not outcome.ok and self._stopped is not None:
            status, self._cut = Status.CANCELLED, True
        self._journal.task(
            name,
            place.instance,
            status,
            attempt=place.attempt,
            exit_code=outcome.exit_code,
            error=outcome.error,
        )
        retries = self._workflow.tasks[name].retries
        if outcome.ok:
            self._changed(self._tracker.complete(name))
        elif self._stopped is None and place.attempt < retries.attempts:
            self._rest(name, place, retries.delay(place.attempt))
        else:
            self._errors[name] = outcome.error
            self._changed(self._tracker.fail(name))

    def _rest(self, name: str, place: _Place, seconds: float) -> None:
        """Wait for the next attempt, without a slot."""
        place.instance, place.attempt = sortable_id(), place.attempt + 1
        self._journal.task(name, place.instance, Status.PENDING, attempt=place.attempt)
        self._resting[name] = self._loop.call_later(seconds, self._wake, name)

    def _wake(self, name: str) -> None:
        del self._resting[name]
        self._rested.append(name)
        self._fill()

    def _changed(self, change: Change) -> None:
        if self._stopped is None:  # else what has not begun is noted at the end
            self._announce(change.ready)
        reason = self._stopped[1] if self._stopped else "a task it depends on failed"
        for name in change.skipped:
            self._journal.task(name, sortable_id(), Status.SKIPPED, error=reason)

    def _outcome(self) -> tuple[Status, str]:
        if self._stopped is not None and (self._cut or not self._tracker.finished):
            status, reason = self._stopped
            self._note_unstarted(reason)
            return status, reason
        if self._tracker.succeeded:
            return Status.COMPLETED, ""
        return Status.FAILED, "; ".join(f"{name}: {error}" for name, error in self._errors.items())

    def _note_unstarted(self, reason: str) -> None:
        """Every task gets an end: those that wait for another attempt, and those that never began."""
        for name, state in self._tracker.states().items():
            if not state.is_final:
                place = self._places.get(name)
                again = name in self._rested
                self._journal.task(
                    name,
                    place.instance if place else sortable_id(),
                    Status.CANCELLED if again else Status.SKIPPED,
                    attempt=place.attempt if place else 1,
                    error=reason,
                )


class TaskManager:
    """`limit` bounds the tasks of each run; how many runs there are is for its caller to say."""

    def __init__(self, spool: Spool, limit: int, workplace: Workplace | None = None) -> None:
        self._spool = spool
        self._limit = limit
        self._workplace = workplace or Workplace()
        self._walks: dict[str, RunWalk] = {}
        self._epochs: dict[str, int] = {}
        self._over: dict[str, asyncio.Event] = {}
        self._ended: dict[str, tuple[int, int]] = {}  # epoch, and the record that tells of the end

    @property
    def running(self) -> tuple[str, ...]:
        """The runs that are under way."""
        return tuple(self._epochs)

    @property
    def held(self) -> Mapping[str, int]:
        """The runs in hand, each with its epoch: also those that ended, until the principal knows of it."""
        for run_id, (_, seq) in tuple(self._ended.items()):
            if seq <= self._spool.acked:
                del self._ended[run_id]
        return {run_id: epoch for run_id, (epoch, _) in self._ended.items()} | self._epochs

    async def run(self, run: FetchedRun) -> Status:
        """Run a workflow to its end. Everything about it is in the spool; nothing here waits for the principal."""
        await self._end_earlier(run)
        over = self._over[run.run_id] = asyncio.Event()
        self._epochs[run.run_id] = run.epoch
        try:
            return await self._run(run)
        finally:
            del self._epochs[run.run_id], self._over[run.run_id]
            self._ended[run.run_id] = (run.epoch, self._spool.next - 1)
            self._walks.pop(run.run_id, None)
            over.set()

    def stop(self, run_id: str, status: Status, reason: str) -> bool:
        """End a run before its time; whether it is in hand."""
        walk = self._walks.get(run_id)
        if walk is not None:
            walk.stop(status, reason)
        return walk is not None

    async def _end_earlier(self, run: FetchedRun) -> None:
        """A run that was taken from this agent and given to it again must not be run twice at a time."""
        earlier = self._over.get(run.run_id)
        if earlier is not None:
            self.stop(run.run_id, Status.CANCELLED, "this run was started anew")
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
        walk = self._walks[run.run_id] = RunWalk(workflow, params, journal, self._workplace, self._limit)
        try:
            status = await walk.run()
        except Exception as error:  # a defect of ours: the run must have an end all the same
            _log.exception("run %s of %s could not be run", run.run_id, workflow.id)
            journal.run(Status.FAILED, f"the agent could not run it: {error!r}")
            return Status.FAILED
        _log.info("run %s of %s: %s", run.run_id, workflow.id, status)
        return status
