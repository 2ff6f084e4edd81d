"""continue_step and fail_step: how the outside says that a step's work is over."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine
from runtime_programs import ASK, ASK_TWICE, NUMBER

from afl.runtime.entities import NoteType, TaskState
from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId, WorkflowId

TYPED = """
schema Point { x: Long, y: Long }
event facet Look(at: String) => (n: Long, points: [Point], note: String = "none")
workflow W() => (r: Long, note: String) andThen {
    a = Look(at = "here")
    yield W(r = a.n, note = a.note)
}
"""


@pytest.fixture
def asked(engine: Engine) -> StepId:
    engine.run(ASK, {"i": 3})
    return engine.waiting[0].id


def test_the_result_lands_in_the_returns(engine: Engine, asked: StepId) -> None:
    assert engine.evaluator.continue_step(asked, {"o": 9})
    step = engine.store.get_step(asked)
    assert step is not None
    assert step.attributes.get_return("o") == 9
    assert step.attributes.params.keys() == {"i"}
    assert step.get_attribute("o") == 9


def test_the_step_moves_on_at_the_next_resume(engine: Engine, asked: StepId) -> None:
    engine.evaluator.continue_step(asked, {"o": 9})
    assert engine.step("a").state == StepState.EVENT_TRANSMIT
    assert engine.resume().outputs == {"r": 9}
    assert engine.step("a").is_complete


def test_task_and_event_close_with_it(engine: Engine, asked: StepId) -> None:
    engine.evaluator.continue_step(asked, {"o": 9})
    (task,) = engine.tasks
    assert (task.state, task.error) == (TaskState.COMPLETED, None)
    (event,) = [e for e in engine.store.get_events_by_workflow(engine.run_id) if e.event_type == "Ask"]
    assert (event.state, event.payload) == (EventState.COMPLETED, {"i": 3, "result": {"o": 9}})


def test_a_continued_step_leaves_a_step_continue_event(engine: Engine, asked: StepId) -> None:
    engine.evaluator.continue_step(asked, {"o": 9})
    (mark,) = engine.store.get_marks(engine.run_id)
    assert (mark.event_type, mark.step_id, mark.payload["step_id"]) == ("StepContinue", asked, asked)
    engine.resume()
    assert engine.store.get_marks(engine.run_id) == []


def test_without_a_result_nothing_is_merged(engine: Engine) -> None:
    engine.run("event facet Poke()\nworkflow W() => (r: Long) andThen { a = Poke()\n yield W(r = 1) }")
    engine.evaluator.continue_step(engine.waiting[0].id)
    assert engine.resume().outputs == {"r": 1}
    assert engine.step("a").attributes.returns == {}


@pytest.mark.parametrize("resumed", [False, True])
def test_a_second_continue_is_a_no_op(engine: Engine, asked: StepId, resumed: bool) -> None:
    assert engine.evaluator.continue_step(asked, {"o": 9})
    if resumed:
        engine.resume()
    assert not engine.evaluator.continue_step(asked, {"o": 1000})
    assert not engine.evaluator.fail_step(asked, "too late")
    assert engine.resume().outputs == {"r": 9}
    assert [task.state for task in engine.tasks] == [TaskState.COMPLETED]


def test_a_continue_after_a_failure_is_a_no_op(engine: Engine, asked: StepId) -> None:
    assert engine.evaluator.fail_step(asked, "boom")
    assert not engine.evaluator.continue_step(asked, {"o": 1})
    assert engine.resume().status == ExecutionStatus.ERROR


@pytest.mark.parametrize("call", ["continue_step", "fail_step"])
def test_an_unknown_step_is_an_error(engine: Engine, call: str) -> None:
    with pytest.raises(ValueError, match=r"^Step nope not found$"):
        getattr(engine.evaluator, call)("nope", *(["x"] if call == "fail_step" else []))


@pytest.mark.parametrize("call", ["continue_step", "fail_step"])
def test_a_step_before_event_transmit_is_an_error(engine: Engine, call: str) -> None:
    step = StepDefinition.create(WorkflowId("run"), ObjectType.VARIABLE_ASSIGNMENT)
    step.change_state(StepState.FACET_INIT_BEGIN)
    engine.store.save_step(step)
    expected = f"^Step {step.id} is at state.facet.initialization.Begin, expected state.EventTransmit$"
    with pytest.raises(ValueError, match=expected):
        getattr(engine.evaluator, call)(step.id, *(["x"] if call == "fail_step" else []))
    stored = engine.store.get_step(step.id)
    assert stored is not None
    assert stored.state == StepState.FACET_INIT_BEGIN


@pytest.mark.parametrize("call", ["continue_step", "fail_step"])
def test_a_step_that_never_waited_is_an_error(engine: Engine, call: str) -> None:
    engine.run(
        """
        facet Two() => (n: Long) andThen { yield Two(n = 2) }
        workflow W() => (r: Long) andThen { a = Two() yield W(r = a.n) }
        """
    )
    step = engine.step("a")
    with pytest.raises(
        ValueError, match=f"^Step {step.id} is at {step.state}, expected state.EventTransmit$"
    ):
        getattr(engine.evaluator, call)(step.id, *(["x"] if call == "fail_step" else []))


def test_fail_step_ends_step_task_and_event(engine: Engine, asked: StepId) -> None:
    assert engine.evaluator.fail_step(asked, "boom")
    step = engine.store.get_step(asked)
    assert step is not None
    assert step.state == StepState.STATEMENT_ERROR
    assert "boom" in str(step.transition.error)
    (task,) = engine.tasks
    assert task.state == TaskState.FAILED
    assert task.error is not None
    assert task.error["message"] == "boom"
    (event,) = [e for e in engine.store.get_events_by_workflow(engine.run_id) if e.event_type == "Ask"]
    assert (event.state, event.payload) == (EventState.ERROR, {"i": 3, "error": "boom"})


def test_a_failed_step_fails_the_run_and_says_where(engine: Engine, asked: StepId) -> None:
    engine.evaluator.fail_step(asked, "boom")
    result = engine.resume()
    assert (result.success, result.status, result.outputs) == (False, ExecutionStatus.ERROR, {})
    assert "boom" in str(result.error)
    assert (getattr(result.error, "step", ""), getattr(result.error, "facet", "")) == ("a", "Ask")
    root = engine.store.get_workflow_root(engine.run_id)
    assert root is not None
    assert root.is_error


def test_independent_work_goes_on_after_a_failure(engine: Engine) -> None:
    engine.run("event facet E(n: Long) => (m: Long)\nworkflow W() andThen { a = E(n = 1)\n b = E(n = 2) }")
    first, second = engine.waiting
    engine.evaluator.fail_step(first.id, "boom")
    assert engine.resume().status == ExecutionStatus.PAUSED
    engine.evaluator.continue_step(second.id, {"m": 1})
    assert engine.resume().status == ExecutionStatus.ERROR
    assert engine.step("b").is_complete


def test_an_agents_failure_can_be_caught(engine: Engine) -> None:
    source = (
        NUMBER
        + """
event facet Ask(i: Long) => (o: String)
workflow W() => (r: String) andThen {
    a = Ask(i = 1) catch { yield Ask(o = a.error) }
    yield W(r = a.o)
}
"""
    )
    engine.run(source)
    engine.evaluator.fail_step(engine.waiting[0].id, "boom")
    result = engine.resume()
    assert (result.status, result.outputs) == (ExecutionStatus.COMPLETED, {"r": "boom"})


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"n": "x", "points": []}, "return field 'n': expected Long, got String 'x'"),
        ({"n": 1}, "the result lacks points"),
        (None, "the result lacks n, points"),
        ({"n": 1, "points": [{"x": 1}]}, "return field 'points'[0]: field 'y' of Point is missing"),
        ([1], "a result is a map of return values, got list"),
        ({"n": 1, "points": [object()]}, "not plain JSON data"),
        ({"n": 1, "points": [{1: 1, "1": 2}]}, "at points[0]: two of its keys are the same text in JSON"),
    ],
)
def test_a_result_that_does_not_fit_fails_the_step(engine: Engine, result: Any, message: str) -> None:
    engine.run(TYPED)
    engine.evaluator.continue_step(engine.waiting[0].id, result)
    assert engine.tasks[0].state == TaskState.FAILED
    failed = engine.resume()
    assert failed.status == ExecutionStatus.ERROR
    assert message in str(failed.error)


def test_what_the_return_clause_does_not_declare_is_dropped_with_a_warning(engine: Engine) -> None:
    engine.run(TYPED)
    waiting = engine.waiting[0]
    assert engine.evaluator.continue_step(waiting.id, {"n": 1, "points": [], "took": 3, "host": "a"})
    assert engine.resume().outputs == {"r": 1, "note": "none"}
    assert engine.tasks[0].result == {"n": 1, "points": []}
    (entry,) = engine.store.get_logs_by_runner(engine.run_id)
    assert (entry.note_type, entry.step_id, entry.object_id) == (
        NoteType.WARNING,
        waiting.id,
        engine.tasks[0].uuid,
    )
    assert entry.message == "dropped from the result, as Look does not declare it: took, host"


def test_a_result_without_a_defaulted_return_takes_the_default(engine: Engine) -> None:
    engine.run(TYPED)
    assert engine.answer(n=1, points=[{"x": 1, "y": 2}]).outputs == {"r": 1, "note": "none"}


def test_a_facet_without_a_return_clause_takes_any_map(engine: Engine) -> None:
    engine.run_ast(
        {"name": "W", "body": {"steps": [{"name": "a", "call": {"target": "E"}}]}},
        None,
        {"declarations": [{"type": "EventFacetDecl", "name": "E"}]},
    )
    assert engine.answer(anything=[1]).status == ExecutionStatus.COMPLETED
    assert engine.step("a").attributes.get_return("anything") == [1]


def test_a_run_may_pause_several_times(engine: Engine) -> None:
    assert [event.event_type for event in engine.run(ASK_TWICE).pending_events] == ["ns.First"]
    second = engine.answer(o=5)
    assert second.status == ExecutionStatus.PAUSED
    assert [(event.event_type, event.payload) for event in second.pending_events] == [("ns.Second", {"i": 5})]
    assert engine.answer(o=6).outputs == {"r": 6}
    assert [task.state for task in engine.tasks] == [TaskState.COMPLETED] * 2


def test_a_claim_that_was_lost_changes_nothing(engine: Engine, asked: StepId) -> None:
    claimed = engine.store.claim_task(["Ask"])
    assert claimed is not None
    engine.store.release_tasks(claimed.owner, died=True)
    assert not engine.evaluator.continue_step(asked, {"o": 1}, task=claimed)
    assert not engine.evaluator.fail_step(asked, "boom", task=claimed)
    assert engine.resume().status == ExecutionStatus.PAUSED
    again = engine.store.claim_task(["Ask"])
    assert again is not None
    assert engine.evaluator.continue_step(asked, {"o": 2}, task=again)
    assert engine.resume().outputs == {"r": 2}


def test_many_answers_cost_one_resume(engine: Engine) -> None:
    lines = "\n".join(f"s{i} = E(n = {i})" for i in range(50))
    engine.run(f"event facet E(n: Long) => (m: Long)\nworkflow W() andThen {{\n{lines}\n}}")
    for step in engine.waiting:
        engine.evaluator.continue_step(step.id, {"m": 0})
    result = engine.resume()
    assert result.status == ExecutionStatus.COMPLETED
    assert result.iterations <= 4
