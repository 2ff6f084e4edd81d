"""What a store can say about its own rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class OrphanKind(StrEnum):
    """A row that refers to one that is not there."""

    TASK_RUN = "task-run"  # an open task whose run is missing; tasks of the system have none
    TASK_STEP = "task-step"  # an open task whose step is missing
    TASK_FLOW = "task-flow"  # an open task whose flow is missing
    STEP_RUN = "step-run"  # a step whose run is missing
    RUN_PROGRAM = "run-program"  # a run that is not over, whose program is missing
    RUN_STEPS = "run-steps"  # a run at a fixed point that is not over and has no step at all


@dataclass(frozen=True, slots=True)
class Orphans:
    """Rows of one kind: how many, and the ids of some."""

    kind: OrphanKind
    count: int
    examples: list[str]


class InspectionStore(Protocol):
    """For those who look after a store. It reads every row of several tables, and changes none."""

    def find_orphans(self, examples: int = 3) -> list[Orphans]:
        """Rows that refer to what is not there, as of one moment; a kind without any is left out."""

    def receives_commits(self, timeout: float) -> bool | None:
        """Whether a commit of this process notifies as other processes are notified, within some seconds.

        None if notifications are not meant to reach other processes. It takes and releases a named lock.
        """
