"""Who has which task: claims, their leases, and what becomes of them when their owners die."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afl.runtime.entities import TaskDefinition
from afl.runtime.types import WorkflowId


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
