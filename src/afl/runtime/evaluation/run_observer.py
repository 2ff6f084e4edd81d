"""Those who watch a run while this process works on it."""

from __future__ import annotations

from typing import Protocol

from afl.runtime.entities import TaskDefinition
from afl.runtime.step import StepDefinition


class Observer(Protocol):
    """Somebody who watches a run, such as a progress display. Called from the thread that drives the run."""

    def began(self, workflow_id: str, workflow_name: str) -> None:
        """The run exists."""

    def stored(self, steps: list[StepDefinition]) -> None:
        """These steps were stored as they stand now."""

    def awaited(self, tasks: list[TaskDefinition]) -> None:
        """All that can be done now is to wait for these, which are done elsewhere; none: it goes on here."""

    def task_started(self, task: TaskDefinition) -> None:
        """A handler begins."""

    def task_ended(self, task: TaskDefinition, error: str | None) -> None:
        """A handler ended."""

    def task_retried(self, task: TaskDefinition, error: str, delay_ms: int) -> None:
        """A handler failed, and is called again after a delay: the workflow has a policy for it."""
