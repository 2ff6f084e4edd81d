"""Starts runs by the cron expression of their workflow. An error in one workflow stops no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from afl.fleet.principal import runs
from afl.fleet.principal.catalog import Catalog
from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.store import Change, Notifications
from afl.fleet.workflow import Overlap, Workflow
from afl.kernel.database import Transaction
from afl.kernel.errors import StoreError
from afl.kernel.isolation import Isolation
from afl.kernel.schedule import Firing, Schedule, Schedules

_log = logging.getLogger(__name__)
_PART = "fleet"
_LONGEST_SLEEP_S = 5.0  # the wall clock may be set forward during a sleep, which uses another clock


class Scheduler:
    """Schedules are rows of the store, so a time that passes while the principal is stopped is caught up or dropped."""

    def __init__(
        self, context: PrincipalContext, poll_s: float, now: Callable[[], int] | None = None
    ) -> None:
        """`poll_s` is the interval after the store was unavailable."""
        self._context = context
        self._poll_s = poll_s
        self._schedules = Schedules(context.store.database)
        self._now = now or self._schedules.now
        self._changed = asyncio.Event()
        self._stale = True  # the schedules may differ from the workflows
        self._notifications = Notifications()
        self._isolation = Isolation(_log, "the scheduler")

    @property
    def _catalog(self) -> Catalog:
        return self._context.catalog

    def refresh(self) -> None:
        """The workflows have changed."""
        self._changed.set()

    async def serve(self) -> None:
        """Run until canceled."""
        while True:
            pause = self._poll_s
            try:
                with self._isolation.item("this look"):
                    await self._synchronize_if_changed()
                    pause = await self.fire_due()
            except StoreError as error:
                _log.error("the scheduler waits for the store: %s", error)
            await self._sleep(pause)

    async def _synchronize_if_changed(self) -> None:
        if self._changed.is_set() or self._stale:
            self._changed.clear()
            self._stale = True
            await asyncio.to_thread(self.synchronize)
            self._stale = False

    async def fire_due(self) -> float:
        """Start what is due; how long until the next, in seconds."""
        self._notifications = Notifications()
        await asyncio.to_thread(self._schedules.fire_due, _PART, self._fire, now=self._now())
        self._context.notify(self._notifications)
        look = await asyncio.to_thread(self._schedules.next_look, _PART)
        return _LONGEST_SLEEP_S if look is None else max(0.0, (look - self._now()) / 1000)

    def synchronize(self) -> None:
        """Make the schedules match the workflows, one transaction each."""
        wanted = {workflow.id: workflow for workflow in self._catalog.workflows.values() if workflow.cron}
        known = self._schedules_by_name()
        for workflow in wanted.values():
            with self._isolation.item(f"workflow {workflow.id}, which is not scheduled"):
                self._context.store.database.write(partial(self._put, workflow))
        for name in known - wanted.keys():
            with self._isolation.item(f"schedule {name}, which is not removed"):
                self._context.store.database.write(partial(self._schedules.remove, part=_PART, name=name))

    def _schedules_by_name(self) -> set[str]:
        found = self._context.store.read(lambda tx: self._schedules.show(tx, _PART))
        return {status.schedule.name for status in found}

    def _put(self, workflow: Workflow, tx: Transaction) -> None:
        schedule = Schedule(_PART, workflow.id, workflow.cron or "", catch_up=workflow.catch_up)
        start = workflow.starts_at
        not_before = None if start is None else int(start.timestamp() * 1000)
        self._schedules.put(tx, schedule, self._now(), not_before=not_before)

    def _fire(self, tx: Transaction, firing: Firing) -> None:
        workflow = self._catalog.workflows.get(firing.name)
        if workflow is None or not workflow.cron:
            return  # its file was deleted; the next synchronization removes the schedule
        change = Change(tx, self._context.store)
        if workflow.overlap is Overlap.SKIP and runs.has_open_run(change, workflow.id):
            _log.info("workflow %s is due and skipped: a run of it is open", workflow.id)
            return
        new_run = self._catalog.new_run(workflow, "schedule")
        runs.enqueue(change, new_run, behind=workflow.overlap is Overlap.QUEUE)
        self._notifications.queued += change.notifications.queued

    async def _sleep(self, pause: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), min(pause, _LONGEST_SLEEP_S))
        except TimeoutError:
            return
