"""What an evaluator did, as a list of events; off unless a caller asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from afl.runtime.step import StepDefinition


@dataclass
class TelemetryEvent(Mapping[str, Any]):
    """One thing that happened. As a mapping it has the keys of `to_dict`."""

    timestamp: str
    event_type: str
    workflow_id: str | None = None
    step_id: str | None = None
    block_id: str | None = None
    state: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data without empty keys."""
        optional = {
            "workflowId": self.workflow_id,
            "stepId": self.step_id,
            "blockId": self.block_id,
            "state": self.state,
            "details": self.details,
        }
        given = {name: value for name, value in optional.items() if value}
        return {"timestamp": self.timestamp, "eventType": self.event_type, **given}

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


@dataclass
class Telemetry:
    """Collects telemetry events while enabled."""

    enabled: bool = True
    events: list[TelemetryEvent] = field(default_factory=list)

    def clear(self) -> None:
        """Forget all events."""
        self.events.clear()

    def get_events(self) -> list[TelemetryEvent]:
        """The events so far."""
        return list(self.events)

    def to_json(self, indent: int = 2) -> str:
        """The events as JSON."""
        return json.dumps([event.to_dict() for event in self.events], indent=indent)

    def _add(
        self,
        event_type: str,
        workflow_id: str,
        step: StepDefinition | None = None,
        state: str | None = None,
        **details: Any,
    ) -> None:
        if not self.enabled:
            return
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        step_id, block_id = (step.id, step.block_id) if step is not None else (None, None)
        self.events.append(TelemetryEvent(now, event_type, workflow_id, step_id, block_id, state, details))

    def log_workflow_start(self, workflow_id: str, workflow_name: str) -> None:
        """A run begins or goes on."""
        self._add("workflow.start", workflow_id, workflowName=workflow_name)

    def log_resume(self, workflow_id: str) -> None:
        """A worker evaluates a run: once for all that was answered since the last time."""
        self._add("workflow.resume", workflow_id)

    def log_workflow_complete(self, workflow_id: str, result: dict[str, Any]) -> None:
        """A run ended well."""
        self._add("workflow.complete", workflow_id, result=result)

    def log_workflow_error(self, workflow_id: str, error: Exception) -> None:
        """A run failed."""
        self._add("workflow.error", workflow_id, error=str(error), errorType=type(error).__name__)

    def log_iteration_start(self, workflow_id: str, iteration: int) -> None:
        """An iteration begins."""
        self._add("iteration.start", workflow_id, iteration=iteration)

    def log_iteration_end(self, workflow_id: str, iteration: int, created: int, updated: int) -> None:
        """An iteration ended."""
        self._add(
            "iteration.end", workflow_id, iteration=iteration, stepsCreated=created, stepsUpdated=updated
        )

    def log_commit(self, workflow_id: str, steps: int, tasks: int) -> None:
        """Changes were stored."""
        self._add("commit", workflow_id, steps=steps, tasks=tasks)

    def log_step_created(self, step: StepDefinition) -> None:
        """A step came to be."""
        details = {"objectType": step.object_type, "facetName": step.facet_name}
        self._add("step.created", step.workflow_id, step, **details)

    def log_state_begin(self, step: StepDefinition, state: str) -> None:
        """A handler begins."""
        self._add("state.begin", step.workflow_id, step, state)

    def log_state_end(self, step: StepDefinition, state: str) -> None:
        """A handler ended."""
        self._add("state.end", step.workflow_id, step, state)

    def log_state_transition(self, step: StepDefinition, from_state: str, to_state: str) -> None:
        """A step went on."""
        self._add(
            "state.transition", step.workflow_id, step, to_state, fromState=from_state, toState=to_state
        )

    def log_error(self, step: StepDefinition, state: str, error: Exception) -> None:
        """A handler failed."""
        self._add(
            "step.error", step.workflow_id, step, state, error=str(error), errorType=type(error).__name__
        )

    def log_dependency_resolved(self, step: StepDefinition, dependency_id: str) -> None:
        """What a step waited for is there."""
        self._add("dependency.resolved", step.workflow_id, step, dependencyId=dependency_id)

    def log_event_published(self, step: StepDefinition, event_id: str, event_type: str) -> None:
        """A step asks for outside work."""
        self._add("event.published", step.workflow_id, step, eventId=event_id, eventType=event_type)
