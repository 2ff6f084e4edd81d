"""StepContinue events saved by anybody resume their step; duplicates and strays do nothing."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine
from runtime_programs import ASK, ASK_TWICE

from afl.runtime.entities import TaskState
from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.persistence import EventDefinition
from afl.runtime.states import EventState, StepState
from afl.runtime.types import EventId, StepId, WorkflowId


def save_continue(engine: Engine, step_id: StepId, event_id: str = "foreign-1", run: str = "") -> None:
    """What seed 003 shows: an event with the blocked step's id, saved by an agent."""
    engine.store.save_event(
        EventDefinition(
            id=EventId(event_id),
            step_id=step_id,
            workflow_id=WorkflowId(run or engine.run_id),
            state=EventState.CREATED,
            event_type="StepContinue",
            payload={"step_id": step_id},
        )
    )


def write_returns(engine: Engine, *, request: bool = False, **values: Any) -> StepId:
    """An agent of another language writes its result on the step itself."""
    (step,) = engine.waiting
    for name, value in values.items():
        step.set_attribute(name, value, is_return=True)
    if request:
        step.request_state_change(True)
    engine.store.save_step(step)
    return step.id


@pytest.mark.parametrize("request_change", [False, True])
def test_an_event_and_returns_written_by_an_agent_resume_the_step(
    engine: Engine, request_change: bool
) -> None:
    engine.run(ASK)
    save_continue(engine, write_returns(engine, request=request_change, o=7))
    result = engine.resume()
    assert (result.status, result.outputs) == (ExecutionStatus.COMPLETED, {"r": 7})


def test_the_step_goes_on_past_event_transmit(engine: Engine) -> None:
    engine.run(ASK_TWICE)
    save_continue(engine, write_returns(engine, o=7))
    assert engine.resume().status == ExecutionStatus.PAUSED
    assert engine.step("a").is_complete
    assert engine.step("b").state == StepState.EVENT_TRANSMIT


def test_task_and_event_are_closed_too(engine: Engine) -> None:
    engine.run(ASK)
    save_continue(engine, write_returns(engine, o=7))
    engine.resume()
    assert [task.state for task in engine.tasks] == [TaskState.COMPLETED]
    events = engine.store.get_events_by_workflow(engine.run_id)
    assert [(event.event_type, event.state) for event in events] == [("Ask", EventState.COMPLETED)]


def test_the_merged_returns_are_checked(engine: Engine) -> None:
    engine.run(ASK)
    save_continue(engine, write_returns(engine, o="seven"))
    result = engine.resume()
    assert result.status == ExecutionStatus.ERROR
    assert "return field 'o': expected Long, got String 'seven'" in str(result.error)


def test_missing_returns_fail_the_step(engine: Engine) -> None:
    engine.run(ASK)
    save_continue(engine, engine.waiting[0].id)
    result = engine.resume()
    assert result.status == ExecutionStatus.ERROR
    assert "the result lacks o" in str(result.error)


def test_duplicates_are_consumed_and_do_nothing(engine: Engine) -> None:
    engine.run(ASK_TWICE)
    step_id = write_returns(engine, o=7)
    for number in range(3):
        save_continue(engine, step_id, f"foreign-{number}")
    assert engine.resume().status == ExecutionStatus.PAUSED
    assert engine.store.get_marks(engine.run_id) == []
    assert len(engine.tasks) == 2
    save_continue(engine, step_id, "late")
    result = engine.resume()
    assert (result.status, result.error) == (ExecutionStatus.PAUSED, None)
    assert (engine.store.get_marks(engine.run_id), len(engine.tasks)) == ([], 2)
    assert engine.answer(o=8).outputs == {"r": 8}


def test_an_event_for_a_finished_run_is_a_no_op(engine: Engine) -> None:
    engine.run(ASK)
    step_id = engine.waiting[0].id
    engine.answer(o=1)
    save_continue(engine, step_id)
    result = engine.resume()
    assert (result.status, result.outputs, result.error) == (ExecutionStatus.COMPLETED, {"r": 1}, None)


@pytest.mark.parametrize("step_id", ["nobody", ""])
def test_an_event_for_no_step_does_nothing(engine: Engine, step_id: str) -> None:
    engine.run(ASK)
    save_continue(engine, StepId(step_id))
    assert engine.resume().status == ExecutionStatus.PAUSED
    assert engine.store.get_marks(engine.run_id) == []


def test_an_event_cannot_move_the_step_of_another_run(engine: Engine) -> None:
    engine.run(ASK)
    other, step_id = engine.run_id, write_returns(engine, o=7)
    engine.run(ASK)
    save_continue(engine, step_id)
    assert engine.resume().status == ExecutionStatus.PAUSED
    stored = engine.store.get_step(step_id)
    assert stored is not None
    assert (stored.state, stored.workflow_id) == (StepState.EVENT_TRANSMIT, other)


def test_an_event_for_a_step_that_does_not_wait_does_nothing(engine: Engine) -> None:
    engine.run(ASK)
    save_continue(engine, StepId(engine.run_id))
    assert engine.resume().status == ExecutionStatus.PAUSED
    assert engine.step("a").state == StepState.EVENT_TRANSMIT


def test_marked_runs_are_found_by_whoever_looks(engine: Engine) -> None:
    engine.run(ASK)
    assert engine.store.get_due_runs() == []
    save_continue(engine, write_returns(engine, o=7))
    assert engine.store.get_due_runs() == [engine.run_id]
    engine.resume()
    assert engine.store.get_due_runs() == []
