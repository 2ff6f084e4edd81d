"""What an execution comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.events import EventManager
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import EventDefinition
from afl.runtime.types import WorkflowId


class PendingEvents(Sequence[EventDefinition]):
    """The events a paused run waits for, read when somebody looks: a run may wait for ten thousand."""

    def __init__(self, persistence: PersistenceAPI, workflow_id: WorkflowId) -> None:
        self._manager = EventManager(persistence)
        self._workflow_id = workflow_id

    @cached_property
    def _events(self) -> list[EventDefinition]:
        return self._manager.get_pending_events(self._workflow_id)

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, position: int) -> EventDefinition: ...

    @overload
    def __getitem__(self, position: slice) -> list[EventDefinition]: ...

    def __getitem__(self, position: int | slice) -> EventDefinition | list[EventDefinition]:
        return self._events[position]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, PendingEvents)) and self._events == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._events)


class ExecutionStatus:
    """How an execution ended."""

    COMPLETED = "COMPLETED"
    PAUSED = "PAUSED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"


@dataclass
class ExecutionResult:
    """What an execution came to; `held_by` names another live holder that works on the run instead."""

    success: bool
    workflow_id: WorkflowId
    outputs: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    iterations: int = 0
    status: str = ExecutionStatus.COMPLETED
    pending_events: Sequence[EventDefinition] = field(default_factory=list)
    held_by: str = ""


def result_of(
    persistence: PersistenceAPI, run: RunDefinition, iterations: int, *, timed_out: bool = False
) -> ExecutionResult:
    """The result that a run's record amounts to."""
    workflow_id = WorkflowId(run.workflow_id)
    result = ExecutionResult(True, workflow_id, iterations=iterations)
    if run.state == RunnerState.COMPLETED:
        result.outputs = run.outputs
    elif run.is_over:
        result.success, result.status = False, ExecutionStatus.ERROR
        result.error = StepFailure.from_dict(run.error or {"message": f"the run was {run.state}"})
    elif timed_out:
        result.success, result.status = False, ExecutionStatus.TIMEOUT
        result.error = StepFailure(f"not finished after {iterations} iterations", "Timeout")
    else:
        result.status = ExecutionStatus.PAUSED
        result.pending_events = PendingEvents(persistence, workflow_id)
    return result
