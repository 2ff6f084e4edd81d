"""What a store does with tasks: finding them, and storing how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence.changes import Outcome
from afl.runtime.types import StepId, WorkflowId


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

    def find_tasks(
        self,
        *,
        state: str = "",
        name: str = "",
        task_list: str = "",
        hold: str = "",
        owner: str = "",
        key: str = "",
        prefix: str = "",
        via: str = "",
        after: str = "",
        limit: int = 100,
    ) -> list[TaskDefinition]:
        """The oldest tasks that have all that is asked for (empty: whatever it be), in creation order.

        `name` may be a short one, `key` is a concurrency key, `prefix` the beginning of an id, `via` a kind ("human")
        or all of it ("human:finance"), `after` the id of a task: only younger ones, for paging. The hold "elsewhere"
        without a state means pending ones.
        """

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
