"""Changes gathered over an iteration, and the event record."""

from __future__ import annotations

import pytest

from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import EventDefinition, IterationChanges
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, ObjectType, StepId, WorkflowId


def make_step(step_id: str = "s") -> StepDefinition:
    return StepDefinition(StepId(step_id), ObjectType.VARIABLE_ASSIGNMENT, WorkflowId("run"))


def make_event(event_id: str = "e") -> EventDefinition:
    return EventDefinition(EventId(event_id), StepId("s"), WorkflowId("run"), EventState.CREATED, "ns.F")


def test_event_definition() -> None:
    event = make_event()
    assert event.payload == {}
    assert event.payload is not make_event().payload
    assert (event.id, event.step_id, event.workflow_id) == ("e", "s", "run")
    assert (event.state, event.event_type) == ("event.Created", "ns.F")


def test_fresh_changes_are_empty() -> None:
    changes = IterationChanges()
    assert (changes.created_steps, changes.updated_steps) == ([], [])
    assert (changes.created_events, changes.updated_events, changes.created_tasks) == ([], [], [])
    assert not changes.has_changes
    assert changes.created_steps is not IterationChanges().created_steps


def test_a_step_is_created_once() -> None:
    changes, step = IterationChanges(), make_step()
    changes.add_created_step(step)
    changes.add_created_step(step.clone())
    assert changes.created_steps == [step]
    assert changes.created_steps[0] is step


def test_the_last_update_of_a_step_counts_and_keeps_its_place() -> None:
    changes, first = IterationChanges(), make_step("a")
    changes.add_updated_step(first)
    changes.add_updated_step(make_step("b"))
    later = first.clone()
    later.change_state(StepState.EVENT_TRANSMIT)
    changes.add_updated_step(later)
    assert [step.id for step in changes.updated_steps] == ["a", "b"]
    assert changes.updated_steps[0] is later


def test_events_and_tasks_are_kept_in_order() -> None:
    changes = IterationChanges()
    changes.add_created_event(make_event("1"))
    changes.add_created_event(make_event("2"))
    changes.add_updated_event(make_event("3"))
    task = TaskDefinition("t", "ns.F", "", "run", "", "s")
    changes.add_created_task(task)
    assert [event.id for event in changes.created_events] == ["1", "2"]
    assert [event.id for event in changes.updated_events] == ["3"]
    assert changes.created_tasks == [task]


@pytest.mark.parametrize(
    "fill",
    [
        lambda changes: changes.add_created_step(make_step()),
        lambda changes: changes.add_updated_step(make_step()),
        lambda changes: changes.add_created_event(make_event()),
        lambda changes: changes.add_updated_event(make_event()),
        lambda changes: changes.add_created_task(TaskDefinition("t", "F", "", "run", "", "s")),
    ],
    ids=["created step", "updated step", "created event", "updated event", "created task"],
)
def test_anything_is_a_change_until_cleared(fill: object) -> None:
    assert callable(fill)
    changes = IterationChanges()
    fill(changes)
    assert changes.has_changes
    changes.clear()
    assert not changes.has_changes
    fill(changes)
    assert changes.has_changes


def test_the_name_of_the_event_that_resumes_a_step() -> None:
    assert STEP_CONTINUE == "StepContinue"
