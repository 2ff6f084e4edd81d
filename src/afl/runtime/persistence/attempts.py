"""What a store knows of attempts."""

from __future__ import annotations

from typing import Protocol

from afl.runtime.entities import AttemptDefinition


class AttemptStore(Protocol):
    """Attempts that have ended; a running one is its task's row (`running_attempt`).

    `commit`, `finish`, `close_tasks` and `requeue` store the `attempt` of a task with the rest; `return_tasks`, if the
    work had begun, `release_tasks`, `reclaim` and `cancel_run` make one for each claim that they end. Of one that ended
    without a result the log of its run says so, in the same transaction. A task keeps its first attempt and the newest
    KEPT_ATTEMPTS; with its run they go.
    """

    def get_attempts(self, workflow_id: str, task_id: str = "") -> list[AttemptDefinition]:
        """The attempts of a run, or of one of its tasks, task by task; tasks of no run have the run ""."""

    def get_troubled_attempts(self, workflow_id: str, limit: int = 1000) -> list[AttemptDefinition]:
        """The attempts of so many tasks of a run of which one or more ended without a result, task by task."""
