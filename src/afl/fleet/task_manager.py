"""The runs of one agent: each workflow is walked by its DAG, tasks in parallel, up to the agent's limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from afl.fleet.answers import FetchedRun
from afl.fleet.journal import RunJournal
from afl.fleet.parameters import bind
from afl.fleet.run_walk import RunWalk
from afl.fleet.spool import Spool
from afl.fleet.statuses import Status
from afl.fleet.task_attempt import Workplace
from afl.fleet.workflow import Workflow
from afl.fleet.workflow_wire import decode_workflow
from afl.kernel.errors import InputError

_log = logging.getLogger(__name__)


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
