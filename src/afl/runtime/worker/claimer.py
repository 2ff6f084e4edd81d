"""Claims tasks for a worker: when there is a reason to ask the store, and no more than there is room for."""

from __future__ import annotations

import time

from afl.kernel import crashpoint
from afl.runtime.entities import TaskDefinition, TaskHold
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId
from afl.runtime.worker.options import WorkerOptions

_DUE_SECONDS = 0.01
_UNDECIDED = (
    TaskHold.TIMEOUT,
    TaskHold.POISONED,
)  # somebody found that its time is up, or that too many died on it
_FULL_SECONDS = 0.2  # how often to look whether others gave up a slot of a concurrency key


class Claimer:
    """`wanted` says that there may be a task to claim: after a notification, a full batch, or at a poll."""

    def __init__(self, store: PersistenceAPI, handlers: Handlers, options: WorkerOptions) -> None:
        self._store = store
        self._handlers = handlers
        self._options = options
        self.wanted = True
        self.notified = False  # since the last claim
        self._next_due: float | None = (
            None  # when the first delayed task may be claimed, on the monotonic clock
        )
        self._next_due_is_known = False

    def notify(self) -> None:
        """A task was committed."""
        self.wanted = self.notified = True

    def timeout(self, room: int) -> float | None:
        """In how many seconds there is a reason to claim; None without any.

        Delayed tasks are looked up here, before the worker waits, and not between a claim and its handlers.
        """
        if room <= 0:
            return None  # a result makes room, and wakes the worker
        if self.wanted:
            return 0.0
        if not self._next_due_is_known:
            self._look_up_next_due()
        return None if self._next_due is None else max(0.0, self._next_due - time.monotonic())

    def claim(self, room: int) -> list[TaskDefinition]:
        """Claim tasks, if there is a reason to ask and room for them."""
        is_due = self._next_due is not None and time.monotonic() >= self._next_due
        tasks: list[TaskDefinition] = []
        if room > 0 and (self.wanted or is_due):
            with claiming():
                tasks = self._claim(room)
            crashpoint.reach("claim.after")
            self.wanted = len(tasks) == room
            self._next_due_is_known = self.wanted
        return tasks

    def _claim(self, room: int) -> list[TaskDefinition]:
        return self._store.claim_tasks(
            [*self._handlers.names, *self._options.system_tasks],
            self._options.task_list,
            limit=room,
            lease_ms=self._options.lease_ms or self._store.lease_ms,
            lock_ms=self._options.lock_ms,
            any_event=self._handlers.any_event,
        )

    def _look_up_next_due(self) -> None:
        wait = self._store.next_due(self._options.task_list)
        self._next_due = None if wait is None else time.monotonic() + wait / 1000
        self._next_due_is_known = True


def seconds_until_due(store: PersistenceAPI, handlers: Handlers, workflow_id: str) -> float | None:
    """In how many seconds a task of the run may be claimed by these handlers, or a timer is over; None if never."""
    run = WorkflowId(workflow_id)
    held_back = store.get_held_back(run)
    waits = [store.next_due(workflow_id=run), _until_timer(store, held_back)]
    known = [wait / 1000 for wait in waits if wait is not None]
    if known:
        return max(0.0, min(known))
    held_back = [task for task in held_back if not task.via and handlers.serves(task.name)]
    if any(task.hold in _UNDECIDED or (task.not_before and not task.hold) for task in held_back):
        return _DUE_SECONDS  # a sweep decides about it, or its delay ended since the last claim
    waiting = [task.per_minute for task in held_back if task.hold == TaskHold.CONCURRENCY]
    if waiting and all(waiting):
        return max(_FULL_SECONDS, 60 / max(waiting))  # a task of another run has the next slot
    return _FULL_SECONDS if waiting else None


def _until_timer(store: PersistenceAPI, tasks: list[TaskDefinition]) -> int | None:
    deadlines = [task.deadline for task in tasks if task.hold == TaskHold.TIMER]
    return min(deadlines) - store.now() if deadlines else None
