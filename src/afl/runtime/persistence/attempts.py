"""What a store knows of attempts."""

from __future__ import annotations

from typing import Protocol

from afl.runtime.entities import AttemptDefinition


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
