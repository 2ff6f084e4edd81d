"""What a store does with tasks: finding them, and storing how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from afl.runtime.entities import TaskDefinition
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
