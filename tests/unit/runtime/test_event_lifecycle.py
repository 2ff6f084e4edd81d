"""An event follows its task: Created, Dispatched, Processing, then Completed or Error."""

from __future__ import annotations

import pytest
from engine_bench import Engine
from runtime_programs import ASK

from afl.kernel.errors import FencedError
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import EventDefinition
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.states import EventState
from afl.runtime.step import StepDefinition
from afl.runtime.types import EventId, ObjectType, StepId, WorkflowId


@pytest.fixture
def asked(engine: Engine) -> Engine:
    engine.run(ASK, {"i": 3})
    return engine


def claim(engine: Engine) -> TaskDefinition:
    task = engine.store.claim_task(["Ask"])
    assert task is not None
    return task


def event_of(engine: Engine) -> EventDefinition:
    (event,) = [e for e in engine.store.get_events_by_workflow(engine.run_id) if e.event_type == "Ask"]
    return event


def test_event_and_task_are_there_as_soon_as_the_run_pauses(asked: Engine) -> None:
    (task,) = asked.store.get_pending_tasks("default")
    event = event_of(asked)
    assert (task.step_id, event.step_id) == (asked.waiting[0].id, asked.waiting[0].id)
    assert (task.state, event.state) == (TaskState.PENDING, EventState.CREATED)
    assert task.params == event.payload == {"i": 3}


def test_a_claim_dispatches(asked: Engine) -> None:
    assert claim(asked).state == TaskState.RUNNING
    assert event_of(asked).state == EventState.DISPATCHED


def test_a_handler_that_begins_is_processing(asked: Engine) -> None:
    asked.store.start_tasks([claim(asked)])
    assert event_of(asked).state == EventState.PROCESSING


def test_success_completes(asked: Engine) -> None:
    task = claim(asked)
    asked.store.start_tasks([task])
    assert asked.evaluator.continue_step(StepId(task.step_id), {"o": 4}, task=task)
    assert event_of(asked).state == EventState.COMPLETED
    stored = asked.store.get_task(task.uuid)
    assert stored is not None
    assert stored.state == TaskState.COMPLETED


def test_failure_is_an_error(asked: Engine) -> None:
    task = claim(asked)
    assert asked.evaluator.fail_step(StepId(task.step_id), "boom", task=task)
    assert event_of(asked).state == EventState.ERROR
    stored = asked.store.get_task(task.uuid)
    assert stored is not None
    assert (stored.state, (stored.error or {})["message"]) == (TaskState.FAILED, "boom")


def test_a_task_that_returns_to_the_queue_takes_its_event_back(asked: Engine) -> None:
    task = claim(asked)
    assert asked.store.release_tasks(task.owner, died=False) == 1
    assert event_of(asked).state == EventState.CREATED
    assert claim(asked).epoch > task.epoch


def test_the_creator_is_not_the_claimer(engine: Engine) -> None:
    engine.run_ast(
        {"name": "W", "body": {"steps": [{"name": "a", "call": {"target": "E"}}]}},
        None,
        {"declarations": [{"type": "EventFacetDecl", "name": "E"}]},
        runner_id="creator",
    )
    task = engine.store.claim_task(["E"], owner="claimer")
    assert task is not None
    assert (task.runner_id, task.owner) == ("creator", "claimer")


def test_steps_events_and_tasks_are_committed_together_or_not_at_all(engine: Engine) -> None:
    step = StepDefinition(StepId("s"), ObjectType.VARIABLE_ASSIGNMENT, WorkflowId("run"))
    changes = IterationChanges()
    changes.add_created_step(step)
    changes.add_created_event(
        EventDefinition(EventId("e"), step.id, step.workflow_id, EventState.CREATED, "F")
    )
    changes.add_created_task(TaskDefinition("t", "F", "", "run", "", "s"))
    engine.store.commit(changes)
    assert engine.store.get_step(step.id) is not None
    assert engine.store.get_event(EventId("e")) is not None
    assert engine.store.get_task("t") is not None


def test_a_commit_that_lost_its_run_stores_nothing(asked: Engine) -> None:
    run = asked.store.take_run(asked.run_id, lease_ms=60_000)
    assert run is not None
    run.epoch -= 1
    changes = IterationChanges(run=run)
    changes.add_created_step(StepDefinition(StepId("s"), ObjectType.BLOCK, WorkflowId("run")))
    changes.add_created_task(TaskDefinition("t", "F", "", "run", "", "s"))
    with pytest.raises(FencedError):
        asked.store.commit(changes)
    assert asked.store.get_step(StepId("s")) is None
    assert asked.store.get_task("t") is None
