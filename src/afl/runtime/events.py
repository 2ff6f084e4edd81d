"""The life of events, and handlers for them in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.errors import EventError
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import STEP_CONTINUE, EventDefinition, Outcome
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, StepId, WorkflowId, event_id

EventHandler = Callable[[dict[str, Any]], dict[str, Any] | None]


def step_continue(step_id: StepId, workflow_id: WorkflowId, **details: Any) -> EventDefinition:
    """The event that tells the evaluator of a run that a step may go on. One at a time per step."""
    return EventDefinition(
        id=EventId(f"continue:{step_id}"),
        step_id=step_id,
        workflow_id=workflow_id,
        state=EventState.CREATED,
        event_type=STEP_CONTINUE,
        payload={"step_id": step_id, **details},
    )


def mark_of_saved(step: StepDefinition) -> EventDefinition | None:
    """The word that a step was given its returns and asks to go on; None for any other that is saved."""
    if step.state != StepState.EVENT_TRANSMIT or not step.transition.request_transition:
        return None
    return step_continue(step.id, step.workflow_id)


def mark_of(outcome: Outcome) -> EventDefinition:
    """The word for the evaluator of a run that the outside work of a step has ended."""
    details = {"closed": True, "failed": True} if outcome.step.is_error else {"closed": True}
    return step_continue(outcome.step.id, outcome.step.workflow_id, **details)


_EVENT_STATES = {
    TaskState.PENDING: EventState.CREATED,
    TaskState.RUNNING: EventState.DISPATCHED,
    TaskState.COMPLETED: EventState.COMPLETED,
}


def event_of(task: TaskDefinition) -> EventDefinition:
    """The event that a task amounts to: Created, Dispatched once claimed, Processing, then Completed or Error."""
    state = _EVENT_STATES.get(task.state, EventState.ERROR)
    if task.state == TaskState.RUNNING and task.started:
        state = EventState.PROCESSING
    payload = task.params
    if task.result is not None:
        payload["result"] = task.result
    if state == EventState.ERROR:
        payload["error"] = (task.error or {}).get("message", task.state)
    return EventDefinition(
        EventId(task.uuid), StepId(task.step_id), WorkflowId(task.workflow_id), state, task.name, payload
    )


@dataclass
class EventManager:
    """Moves events through their states: Created, Dispatched, Processing, then Completed or Error.

    The methods change and return the event they are given; saving it is the caller's business.
    """

    persistence: PersistenceAPI

    def create_event(
        self, step_id: StepId, workflow_id: WorkflowId, event_type: str, payload: dict[str, Any]
    ) -> EventDefinition:
        """A new event in Created."""
        return EventDefinition(event_id(), step_id, workflow_id, EventState.CREATED, event_type, payload)

    def dispatch(self, event: EventDefinition) -> EventDefinition:
        """A worker claimed the event's task."""
        event.state = EventState.DISPATCHED
        return event

    def start_processing(self, event: EventDefinition) -> EventDefinition:
        """A handler began."""
        event.state = EventState.PROCESSING
        return event

    def complete(self, event: EventDefinition, result: dict[str, Any]) -> EventDefinition:
        """The work is done."""
        event.state = EventState.COMPLETED
        event.payload["result"] = result
        return event

    def error(self, event: EventDefinition, error: str) -> EventDefinition:
        """The work failed."""
        event.state = EventState.ERROR
        event.payload["error"] = error
        return event

    def get_pending_events(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        """The events of a run that are not over, in creation order."""
        events = self.persistence.get_events_by_workflow(workflow_id)
        return [e for e in events if e.event_type != STEP_CONTINUE and not EventState.is_terminal(e.state)]


class LocalEventHandler:
    """Handlers by event type, called in this process."""

    def __init__(self) -> None:
        self._handlers: dict[str, EventHandler] = {}

    def register(self, event_type: str, handler: EventHandler) -> None:
        """Serve an event type; the last registration counts."""
        self._handlers[event_type] = handler

    def handle(self, event: EventDefinition) -> dict[str, Any] | None:
        """What the handler says; None if there is none."""
        handler = self._handlers.get(event.event_type)
        return handler(event.payload) if handler is not None else None


@dataclass
class EventDispatcher:
    """Hands events to handlers in this process and keeps what they answered until it is asked for."""

    handler: LocalEventHandler = field(default_factory=LocalEventHandler)
    _completed: deque[tuple[EventId, dict[str, Any]]] = field(default_factory=deque)

    def dispatch(self, event: EventDefinition) -> None:
        """Run the event's handler; EventError if it is over already."""
        if EventState.is_terminal(event.state):
            raise EventError(event.id, f"is over already ({event.state})")
        event.state = EventState.DISPATCHED
        result = self.handler.handle(event)
        if result is not None:
            self._completed.append((event.id, result))

    def poll_completed(self) -> list[tuple[EventId, dict[str, Any]]]:
        """Answers since the last call, oldest first."""
        answers = list(self._completed)
        self._completed.clear()
        return answers
