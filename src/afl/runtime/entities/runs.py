"""Runs: what evaluators hold, and the record people see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from afl.runtime.entities.flows import Parameter, UserDefinition, WorkflowDefinition

CANNOT_BE_EVALUATED = "paused, since it cannot be evaluated"  # how the reason of such a run begins


class RunnerState:
    """States of a run's record."""

    CREATED = "created"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PAUSED = "paused"
    CANCELED = "canceled"
    CANCELLED = CANCELED  # its other spelling, for programs that have it
    UNKNOWN = "unknown"


_OVER = (RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELED)


class ParentClose:
    """What becomes of a child run when its parent ends, or does not wait any more."""

    CANCEL = "cancel"
    DETACH = "detach"


@dataclass
class RunDefinition:
    """One run of a workflow, held by at most one evaluator at a time under (owner, epoch, lease_until).

    `settled` says that the last commit was at a fixed point: nothing was left to look at but what outsiders send.
    `waiting` counts the steps at EventTransmit. `reason` says who or what paused or canceled the run.
    `unreadable` says why the stored run could not be read in full; what could not is empty.

    `name` and `tags` are what people call it and find it by; they are given when it starts.

    A child run has the step that started it as `parent_step`, and what becomes of it when the parent closes
    (a word of ParentClose). `parent_told` is 1 when no step waits for its end any more, or ever did.

    `origin` is the run that it was started again from, or the step of that run at which it was forked.
    """

    workflow_id: str
    workflow_name: str
    program_hash: str
    state: str = RunnerState.RUNNING
    runner_id: str = ""
    flow_id: str = ""
    task_list: str = "default"
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    iterations: int = 0
    waiting: int = 0
    settled: bool = False
    created: int = 0
    updated: int = 0
    ended: int = 0
    owner: str = ""
    epoch: int = 0
    lease_until: int = 0
    reason: str = ""
    parent_step: str = ""
    on_parent_close: str = ""
    parent_told: int = 0
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    origin: str = ""

    unreadable = ""  # without a type: it is no field, and not stored

    @property
    def is_over(self) -> bool:
        """Whether the run ended."""
        return self.state in _OVER

    @property
    def parent(self) -> str:
        """The run that started this one; empty if it is no child."""
        return self.parent_step.partition("/")[0]

    @property
    def source(self) -> str:
        """The run that this one was started again, or forked, from; empty if there is none."""
        return self.origin.partition("/")[0]


@dataclass
class RunOutcome:
    """Of a run, only what who waits for its end is told."""

    workflow_id: str
    workflow_name: str
    state: str
    outputs: dict[str, Any]
    error: dict[str, Any] | None
    reason: str
    created: int
    updated: int
    ended: int

    @classmethod
    def of(cls, run: RunDefinition) -> RunOutcome:
        """That of a run."""
        return cls(*(getattr(run, each.name) for each in fields(cls)))

    @property
    def is_over(self) -> bool:
        """Whether the run ended."""
        return self.state in _OVER


def labels(tags: Mapping[str, str]) -> list[str]:
    """Tags as stores look for them: `key=value`."""
    return [f"{key}={value}" for key, value in tags.items()]


@dataclass
class RunnerDefinition:
    """The record people see of one run; it follows the run's state."""

    uuid: str
    workflow_id: str
    workflow: WorkflowDefinition
    parameters: list[Parameter] = field(default_factory=list)
    step_id: str | None = None
    user: UserDefinition | None = None
    start_time: int = 0
    end_time: int = 0
    duration: int = 0
    retain: int = 0
    state: str = RunnerState.CREATED
