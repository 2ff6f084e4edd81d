"""What a store tells those who watch it, keep figures of it, or look after it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.step import StepLine
from afl.runtime.types import StepId, WorkflowId


class TaskLine(NamedTuple):
    """A task without its data; times are those of the task."""

    uuid: str
    step_id: StepId
    state: str
    hold: str
    via: str
    owner: str
    deliveries: int
    failures: int
    created: int
    started: int
    updated: int


class PulseStore(Protocol):
    """Cheap looks for those who watch: a value that differs when its subject has changed."""

    def run_pulse(self, workflow_id: WorkflowId) -> tuple[Any, ...] | None:
        """Of a run, its steps, tasks and log; None if there is no such run."""

    def runs_pulse(self) -> tuple[Any, ...]:
        """Of the newest runs, and of those that are open."""

    def tasks_pulse(self) -> tuple[Any, ...]:
        """Of the queue: what is in it, and what is being worked on."""

    def log_end(self, runner_id: str) -> int:
        """The position of the newest log entry of a runner (or run); 0 without one."""

    def count_open_runs(self) -> int:
        """How many runs are created or running."""

    def get_step_lines(self, workflow_id: WorkflowId, below: StepId | None = None) -> list[StepLine]:
        """The steps of a run, or those below one of them, without their values: thousands cost little. Oldest first."""

    def get_running_steps(self, workflow_id: WorkflowId) -> set[StepId]:
        """The steps of a run whose tasks somebody works on."""

    def get_task_lines(self, workflow_id: WorkflowId) -> list[TaskLine]:
        """All tasks of the steps of a run without their data: thousands of them cost little. In creation order."""

    def get_tasks_by_step(self, step_id: StepId) -> list[TaskDefinition]:
        """All tasks of a step, in creation order: one more for each time an operator had it retried."""


@dataclass(frozen=True, slots=True)
class TaskCount:
    """Open tasks that are alike, and when the oldest of them was created (wall clock, ms).

    `delayed`: they may not be claimed before some time to come.
    """

    task_list: str
    name: str
    state: str
    hold: str
    via: str
    count: int
    oldest: int
    delayed: bool = False

    @property
    def claimable(self) -> bool:
        """Whether a server may take them now."""
        return self.state == TaskState.PENDING and not self.hold and not self.delayed


@dataclass(frozen=True, slots=True)
class RunFigure:
    """A run as statistics need it. Times are of the wall clock, in milliseconds; `ended` is 0 while it is open."""

    workflow: str
    state: str
    created: int
    ended: int


class CensusStore(Protocol):
    """Figures of the whole store."""

    def count_tasks(self) -> list[TaskCount]:
        """Open tasks by list, name, state, hold and `via`."""

    def count_runs(self) -> dict[str, int]:
        """Runs by state; a state that none has may be missing."""

    def get_run_figures(self, since: int, limit: int) -> list[RunFigure]:
        """Runs that were created at a time or later, newest first."""


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
