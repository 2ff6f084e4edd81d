"""What a store does with tasks: finding them, claims and leases, attempts, and work that goes on elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from afl.runtime.entities import AttemptDefinition, TaskDefinition
from afl.runtime.persistence.changes import Outcome
from afl.runtime.types import StepId, WorkflowId


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks: those that have every value that is not empty, at most `limit`.

    The hold "elsewhere" without a state means pending tasks.
    """

    state: str = ""
    name: str = ""  # may be a short one
    task_list: str = ""
    hold: str = ""
    owner: str = ""
    workflow_id: str = ""
    key: str = ""  # the concurrency key
    prefix: str = ""  # the beginning of the id
    via: str = ""  # a kind ("human") or all of it ("human:finance")
    after: str = ""  # the id of a task: only younger ones, for paging
    limit: int = 100


ANY_TASK = TaskFilter()


class TaskStore(Protocol):
    """The task queue; `ClaimStore` says who has which task."""

    def get_task(self, uuid: str) -> TaskDefinition | None:
        """The task, or None."""

    def get_task_by_step(self, step_id: StepId) -> TaskDefinition | None:
        """The newest task of a step, or None."""

    def get_pending_tasks(self, task_list: str) -> list[TaskDefinition]:
        """Pending tasks of a list, in the order in which they would be claimed."""

    def get_tasks_by_workflow(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        """All tasks of a run, in creation order."""

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        """The newest tasks, newest first."""

    def find_tasks(self, wanted: TaskFilter = ANY_TASK) -> list[TaskDefinition]:
        """The oldest tasks that match, in creation order."""

    def save_task(self, task: TaskDefinition) -> None:
        """Insert or replace a task, without any fence."""

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        """The handlers of these claimed tasks begin: their events become Processing, and their time begins to run."""

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Store the outcomes, each under its own fence: task and step and event and mark, or nothing.

        False for one whose task is no longer the caller's or whose step has left EventTransmit. The slot of a task
        with a concurrency key goes to the next that waits for it.
        """

    def close_tasks(self, tasks: Sequence[TaskDefinition]) -> list[bool]:
        """Give held tasks without a step their last state; False for one that is no longer the caller's."""

    def requeue(self, task: TaskDefinition, delay_ms: int, error: dict[str, Any]) -> bool:
        """Put a task back for another attempt: pending, failures + 1, not claimed before the delay has passed.

        Under its claim; a task without owner must be pending. False if it is not what the caller thinks.
        """

    def return_tasks(self, tasks: Sequence[TaskDefinition], *, begun: bool = False) -> int:
        """Give claims back: pending again, with epoch + 1. How many were still held.

        Unless the work had `begun`, it is as if they had never been delivered.
        """


class ClaimStore(Protocol):
    """Claims. One is known by its task, owner and epoch."""

    def claim_task(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        owner: str = "",
        lease_ms: int = 0,
        lock_ms: int = 0,
        while_alive: bool = False,
    ) -> TaskDefinition | None:
        """Atomically take the first pending task (highest priority, then oldest) that one of the names serves.

        Tasks of one step are served one at a time, oldest first; one with a `hold`, before its time, or whose lock
        (`runner:task:<uuid>`) somebody else has, is passed over. A name without a dot serves every namespace's facet
        of that name; a dotted one only itself. The task becomes running under `owner` (this process when empty) with
        epoch + 1, and so its event Dispatched; its lock is set for `lock_ms`.
        Without a lease (0) only proof of the owner's death or an operator sets it free. `while_alive`: the lease does
        not expire while the owner's process is known to live, where the store can know that.
        """

    def claim_tasks(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        limit: int,
        owner: str = "",
        lease_ms: int = 0,
        lock_ms: int = 0,
        while_alive: bool = False,
        workflow_id: str | None = None,
        any_event: bool = False,
    ) -> list[TaskDefinition]:
        """As `claim_task`, up to `limit` tasks in one round trip, in claim order.

        Of one run only, if named, and then on whatever list they are. `any_event` adds every other task, whatever
        its name, behind the named ones, but never those named `afl:...`.
        """

    def next_due(self, task_list: str | None = None, workflow_id: str | None = None) -> int | None:
        """In how many milliseconds the first delayed task (of a list, of a run) may be claimed; None without one."""

    def get_held_back(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        """The pending tasks of a run that cannot, or could not, be claimed at once: held, limited or put off."""

    def renew(
        self,
        owner: str,
        lease_ms: int,
        lock_ms: int = 0,
        *,
        tasks: Sequence[str] | None = None,
        runs: Sequence[str] | None = None,
    ) -> list[tuple[str, int]]:
        """Extend the lease (and locks) of what the owner holds, all of it or these; its tasks as (uuid, epoch).

        A lease that is longer already stays as it is.
        """

    def held_tasks(self, owner: str) -> list[tuple[str, int]]:
        """The running tasks that an owner holds, as (uuid, epoch)."""

    def renew_task(self, task: TaskDefinition, lease_ms: int) -> bool:
        """Extend one claim; False if it is no longer held."""

    def release_tasks(self, owner: str, *, died: bool) -> int:
        """Return an owner's running tasks to pending with epoch + 1; `died` counts as a death. How many."""

    def reclaim(self, *, expired: bool = True) -> int:
        """Take away what nobody works on any more. How many tasks and runs.

        Tasks and runs of owners whose lease ended or whose death is proven return to pending (epoch + 1); tasks whose
        lease ended only if `expired`. A death or an expiry counts against tasks that had begun (`start_tasks`); the
        first one against all of that owner, unless `max_deliveries` is 1. At `max_deliveries` of both together a task
        gets the hold "poisoned". Tasks past their deadline return to pending with the hold "timeout". Locks of the
        dead end. Whoever sweeps then judges these holds.
        """


class AttemptStore(Protocol):
    """Attempts that ended without a result; any other is its task's row (`own_attempt`).

    `commit`, `finish`, `close_tasks` and `requeue` store the `attempt` of a task with the rest; `return_tasks`, if the
    work had begun, `release_tasks`, `reclaim` and `cancel_run` make one for each claim that they end. The log of the
    run says so, in the same transaction. A task keeps its first attempt and the newest KEPT_ATTEMPTS. They are deleted
    with their run.
    """

    def get_failed_attempts(
        self, workflow_id: str, task_id: str = "", limit: int = 1000
    ) -> list[AttemptDefinition]:
        """Those of a run, or of one of its tasks, task by task; tasks of no run have the run ""."""


class TimerStore(Protocol):
    """Tasks with the hold "timer", claimed by nobody: over when the store's clock has reached their `deadline`.

    A new one has the deadline that it says, or else begins to run for its `timeout_ms`. It keeps running while its run
    is paused. Whoever finds it over finishes it.
    """

    def next_timer(self) -> int | None:
        """In how many milliseconds the first timer is over, below 1 if one is; None without any."""

    def due_timers(self, limit: int = 500) -> list[TaskDefinition]:
        """Timers that are over, the earliest first."""


class ElsewhereStore(Protocol):
    """Tasks with `via`: stored with the hold "elsewhere" (or waiting for a slot of their key first), claimed by nobody.

    The time of such a task (`timeout_ms`, `patience_ms`) begins at once. It keeps that hold while its run is paused,
    and counts as active among the tasks of its key. When somebody but the other side ends it (cancel, a timeout, an
    operator), the hold stays as the mark that the other side has not been told, but for people and signals, which need
    not be told.
    An Outcome `elsewhere` is the other side's own word: it has an effect only if the task is still pending there,
    under the same epoch and `via`.
    """

    def hand_over(
        self, task: TaskDefinition, via: str, bridge: dict[str, Any] | None = None, *, patience_ms: int = 0
    ) -> bool:
        """Let a claimed task be done elsewhere: pending there, with epoch + 1. False if it is not held any more."""

    def get_unanswered(self, limit: int = 100) -> list[TaskDefinition]:
        """Tasks elsewhere whose patience is over: somebody else is to be asked. Oldest first."""

    def ask_next(self, task: TaskDefinition, via: str) -> bool:
        """Move a task to `via`, and store its `bridge` and `patience_ms` as they are now; the epoch stays.

        False if it is no longer where the caller thinks.
        """

    def ended_elsewhere(self, kind: str, limit: int = 100) -> list[TaskDefinition]:
        """Tasks that ended without the other side of this kind ("agent") knowing it yet, oldest first."""

    def told(self, task: TaskDefinition) -> bool:
        """The other side knows that the task has ended; False if it knew already."""
