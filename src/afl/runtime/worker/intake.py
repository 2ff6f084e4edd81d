"""What a worker takes from the queue, and how the work on it begins."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from afl.kernel import crashpoint, telemetry
from afl.kernel.clock import wall_ms
from afl.runtime.entities import TaskDefinition
from afl.runtime.handler import Handlers
from afl.runtime.in_hand import claiming
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.worker.terms import Hooks, Terms
from afl.runtime.worker.thread_pool import Job
from afl.runtime.worker.workbench import Workbench

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Intake:
    """Claims as many tasks as the bench has room for, and has them begun there; tasks of the system are done at once.

    `wanted` says that there may be something to claim, `woken` that the doorbell said so. `taken` is called when
    tasks have come into our hands (not with the job of `answer`, which is in a hurry).
    """

    def __init__(
        self,
        store: PersistenceAPI,
        handlers: Handlers,
        bench: Workbench,
        terms: Terms,
        hooks: Hooks,
        taken: Callable[[], None],
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._bench = bench
        self._terms = terms
        self._hooks = hooks
        self._taken = taken
        self.wanted = True
        self.woken = False
        self.delayed: float | None = None  # when the first of the tasks that are not due yet will be
        self.system: list[TaskDefinition] = []
        self._unmarked: list[TaskDefinition] = []
        self._job: Job | None = None
        self._unsure = False  # whether `delayed` is to be looked up

    def answer(self) -> bool:
        """The doorbell rang: claim, and let this thread begin with it (`take_job`). False if there was nothing."""
        tasks = self._claim()
        if tasks:
            self._job = self._take(tasks, self._bench.start_but_one)
            if self._job is None:
                self._taken()
        return self._job is not None

    def hear(self, rung: bool) -> None:
        """Whether the doorbell rang for us, whoever looked up."""
        self.woken = rung and not self._bench.running
        self.wanted = self.wanted or rung

    @property
    def is_urgent(self) -> bool:
        """Whether there is something to do at once: to claim, or what an answer to a ring left undone."""
        undone = self._unsure or self.system
        return bool(undone or (self.wanted and self._bench.room > 0))

    def take_job(self) -> Job | None:
        """What this thread is to begin with at once."""
        job, self._job = self._job, None
        return job

    def claim(self) -> None:
        """Take what there is room for."""
        tasks = self._claim()
        if tasks is not None:
            self._begin(tasks)
        self._look_ahead()

    def give_up(self) -> list[TaskDefinition]:
        """What is ours and not on the bench; it is so no longer."""
        given, self.system = self.system, []
        return given

    def begin(self, born: list[TaskDefinition]) -> None:
        """Have these tasks worked on, which were ours from their birth; they waited for nobody."""
        if born and telemetry.is_metering():
            self._measure(born, rung=False)
        self._begin(born)

    def _begin(self, tasks: list[TaskDefinition]) -> None:
        self._bench.forget_offers()
        if tasks:
            self._take(tasks, self._bench.start)
            self._taken()
            self.do_system_tasks()

    def _claim(self) -> list[TaskDefinition] | None:
        """What there is for us; None if there is no reason to ask."""
        self.woken, rung = False, self.woken
        late = self.delayed is not None and time.monotonic() >= self.delayed
        room = self._bench.room
        if room < 1 or not (self.wanted or late):
            return None
        with claiming():
            tasks = self._ask(room)
        crashpoint.reach("claim.after")
        self.wanted = len(tasks) == room
        self._unsure = not self.wanted
        if tasks and telemetry.is_metering():
            self._measure(tasks, rung=rung)
        return tasks

    def _ask(self, room: int) -> list[TaskDefinition]:
        return self._store.claim_tasks(
            [*self._handlers.names, *self._terms.system_tasks],
            self._terms.task_list,
            limit=room,
            lease_ms=self._store.lease_ms,
            lock_ms=self._terms.lock_ms,
            any_event=self._handlers.any_event,
        )

    def _look_ahead(self) -> None:
        """There is nothing more to claim; when will there be?"""
        if self._unsure:
            wait = self._store.next_due(self._terms.task_list)
            self.delayed = None if wait is None else time.monotonic() + wait / 1000
            self._unsure = False

    def _take(self, tasks: list[TaskDefinition], start: Callable[[list[TaskDefinition]], T]) -> T:
        mine = [task for task in tasks if task.name not in self._terms.system_tasks]
        started = start(mine)
        self._unmarked += [task for task in mine if not task.started]
        self.system += [task for task in tasks if task.name in self._terms.system_tasks]
        return started

    def _measure(self, tasks: list[TaskDefinition], *, rung: bool) -> None:
        """How many were claimed, and how long they waited for their first claim."""
        task_list, now = self._terms.task_list, wall_ms()
        telemetry.count("afl.claims", len(tasks), list=task_list)
        for task in tasks:
            if task.deliveries <= 1:
                waited = max(0, now - task.created) / 1000
                telemetry.record("afl.claim.wait.seconds", waited, list=task_list)
                if rung:
                    telemetry.record("afl.doorbell.lag.seconds", waited, list=task_list)

    def do_system_tasks(self) -> None:
        """Do the tasks of the system; what the store kept from being done is tried again."""
        while self.system and self._hooks.system is not None:
            self._hooks.system(self.system[0])
            del self.system[0]

    def mark_begun(self) -> None:
        """Events become Processing; of work that is over before anyone could look, nobody needs to know."""
        if self._unmarked and not self.wanted:
            working = self._bench.unanswered()
            self._store.start_tasks([t for t in self._unmarked if (t.uuid, t.epoch) in working])
            self._unmarked = []
        elif len(self._unmarked) > self._bench.limit:
            self._unmarked = self._unmarked[-self._bench.limit :]
