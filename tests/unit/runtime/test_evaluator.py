"""The evaluator's results: success, errors, timeouts, and what bad input leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine
from runtime_programs import ASK, ASK_TWICE, NUMBER, compiled, workflow_of

from afl.runtime.entities import RunnerDefinition, RunnerState, WorkflowDefinition
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.memory_store import MemoryStore
from afl.runtime.states import StepState
from afl.runtime.types import WorkflowId

DIVIDE = (
    NUMBER
    + """
workflow W(d: Long = 0) => (r: Long) andThen {
    bad = N(n = 1 % $.d)
    after = N(n = bad.n)
    independent = N(n = 7)
    yield W(r = after.n)
}
"""
)


def test_statuses() -> None:
    names = ("COMPLETED", "PAUSED", "ERROR", "TIMEOUT")
    assert [getattr(ExecutionStatus, name) for name in names] == list(names)


def test_a_result_is_a_completion_unless_said_otherwise() -> None:
    result = ExecutionResult(True, WorkflowId("run"))
    assert (result.outputs, result.error, result.iterations) == ({}, None, 0)
    assert (result.status, result.pending_events) == ("COMPLETED", [])


def test_each_execution_is_a_run_of_its_own(engine: Engine) -> None:
    first, second = engine.run(ASK, {"i": 1}), engine.run(ASK, {"i": 2})
    assert first.workflow_id != second.workflow_id
    assert [len(result.pending_events) for result in (first, second)] == [1, 1]
    assert {event.workflow_id for event in second.pending_events} == {second.workflow_id}
    assert engine.store.event_count() == 2


def test_a_pause_is_a_success_that_lists_the_events_of_this_run(engine: Engine) -> None:
    result = engine.run(ASK)
    assert (result.success, result.status, result.outputs, result.error) == (True, "PAUSED", {}, None)
    (event,) = result.pending_events
    assert event == engine.store.get_event(event.id)


def test_pending_events_come_in_creation_order(engine: Engine) -> None:
    lines = "\n".join(f"s{i} = E(n = {i})" for i in range(40))
    result = engine.run(f"event facet E(n: Long) => (m: Long)\nworkflow W() andThen {{\n{lines}\n}}")
    assert [event.payload["n"] for event in result.pending_events] == list(range(40))
    assert [task.data["n"] for task in engine.tasks if task.data] == list(range(40))


def test_a_failed_step_is_an_error_of_the_run(engine: Engine) -> None:
    result = engine.run(DIVIDE)
    assert (result.success, result.status, result.outputs) == (False, ExecutionStatus.ERROR, {})
    assert "Division by zero" in str(result.error)
    run = engine.store.get_run(engine.run_id)
    assert run is not None
    assert run.state == RunnerState.FAILED


def test_the_error_names_step_facet_and_line(engine: Engine) -> None:
    error = engine.run(DIVIDE).error
    assert error is not None
    assert (getattr(error, "step", ""), getattr(error, "facet", ""), getattr(error, "line", 0)) == (
        "bad",
        "N",
        4,
    )


def test_a_failure_skips_what_depends_on_it_and_nothing_else(engine: Engine) -> None:
    engine.run(DIVIDE)
    states = {each.id.rpartition("/")[2]: each.state for each in engine.store.get_all_steps()}
    assert states["bad"] == StepState.STATEMENT_ERROR
    assert states["independent"] == StepState.STATEMENT_COMPLETE
    assert "after" not in states
    assert ">0" not in states
    assert states["0"] == states[engine.run_id] == StepState.STATEMENT_ERROR


def test_a_caught_failure_is_no_error(engine: Engine) -> None:
    source = """
facet F(n: Long) => (why: String)
workflow W(d: Long = 0) => (r: String) andThen {
    bad = F(n = 1 % $.d) catch { yield F(why = bad.error) }
    yield W(r = bad.why)
}
"""
    result = engine.run(source)
    assert result.status == ExecutionStatus.COMPLETED
    assert "Division by zero" in result.outputs["r"]


@pytest.mark.parametrize(
    "source",
    [
        "workflow W(d: Long = 0) => (all: [Long]) andThen { bad = F(1 % $.d) yield W(all = [1, 2]) }"
        " catch { yield W(all = [3]) }",
        "facet G(d: Long) => (all: [Long]) andThen { bad = F(1 % $.d) yield G(all = [1, 2]) }"
        " workflow W(d: Long = 0) => (all: [Long]) andThen"
        " { g = G($.d) catch { yield G(all = [3]) } yield W(all = g.all) }",
    ],
)
def test_a_catch_replaces_what_the_failed_body_has_yielded(engine: Engine, source: str) -> None:
    assert engine.run(f"facet F(n: Long) {source}", name="W").outputs == {"all": [3]}


def test_the_runner_record_follows_the_run(engine: Engine) -> None:
    workflow = WorkflowDefinition("w", "W", "", "", "", "", "1.0")
    for uuid in ("good", "bad"):
        engine.store.save_runner(RunnerDefinition(uuid, "", workflow, state=RunnerState.RUNNING))
    program = compiled(DIVIDE)
    good = engine.evaluator.execute(workflow_of(program), {"d": 1}, program, "good")
    bad = engine.evaluator.execute(workflow_of(program), {"d": 0}, program, "bad")
    for uuid, result, state in (("good", good, "completed"), ("bad", bad, "failed")):
        runner = engine.store.get_runner(uuid)
        assert runner is not None
        assert (runner.state, runner.workflow_id) == (state, result.workflow_id)
        assert runner.end_time > 0


def test_tasks_carry_the_runner_and_the_list(engine: Engine) -> None:
    program = compiled(ASK)
    engine.run_ast(workflow_of(program), {"i": 4}, program, runner_id="runner-7", task_list="special")
    (task,) = engine.tasks
    assert (task.runner_id, task.task_list_name, task.workflow_id) == ("runner-7", "special", engine.run_id)
    assert (task.name, task.params, task.flow_id, task.data_type) == ("Ask", {"i": 4}, "", "")


def test_iterations_are_unlimited_unless_a_caller_says_so(store: MemoryStore) -> None:
    assert Evaluator(store).max_iterations is None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"i": "x"}, "input 'i': expected Long, got String 'x'"),
        ({"i": True}, "input 'i': expected Long, got Boolean True"),
        ({"j": 1}, "unknown input 'j'"),
        ({"i": object()}, "not plain JSON data"),
    ],
)
def test_bad_inputs_are_refused_before_anything_is_stored(
    engine: Engine, inputs: dict[str, Any], message: str
) -> None:
    result = engine.run(ASK, inputs)
    assert (result.success, result.status, result.iterations) == (False, ExecutionStatus.ERROR, 0)
    assert message in str(result.error)
    assert engine.store.get_runs() == []
    assert engine.store.step_count() == 0


def test_an_input_of_a_workflow_without_parameters_is_refused(engine: Engine) -> None:
    result = engine.run("workflow W() => (y: Long) andThen { yield W(y = 1) }", {"j": 1})
    assert "workflow W: unknown input 'j'; known: none" in str(result.error)


def test_a_missing_input_is_refused(engine: Engine) -> None:
    result = engine.run("workflow W(i: Long, j: Long)", {"i": 1})
    assert result.status == ExecutionStatus.ERROR
    assert str(result.error) == "workflow W: input 'j' is missing"


def test_all_bad_inputs_are_named_at_once(engine: Engine) -> None:
    result = engine.run("workflow W(i: Long, j: Long)", {"i": "x", "k": 1})
    assert all(part in str(result.error) for part in ("'i'", "'j' is missing", "'k'"))


def test_execute_never_raises(engine: Engine) -> None:
    broken: Any = {"name": "W", "body": 3}
    result = engine.evaluator.execute(broken)
    assert (result.success, result.status) == (False, ExecutionStatus.ERROR)
    assert result.error is not None


def test_a_store_that_fails_is_an_error_result(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(changes: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(engine.store, "commit", refuse)
    result = engine.run(ASK)
    assert (result.status, str(result.error)) == (ExecutionStatus.ERROR, "disk on fire")
    assert engine.telemetry.events[-1].event_type == "workflow.error"


def test_a_workflow_of_a_namespace(engine: Engine) -> None:
    result = engine.run(ASK_TWICE, {"i": 3})
    assert result.status == ExecutionStatus.PAUSED
    assert [event.event_type for event in result.pending_events] == ["ns.First"]
    assert engine.answer(o=4).pending_events[0].event_type == "ns.Second"
    assert engine.answer(o=5).outputs == {"r": 5}


def test_a_workflow_that_is_nowhere(engine: Engine) -> None:
    names: Any = "Nope"
    result = engine.evaluator.execute(names, None, compiled(ASK_TWICE))
    assert result.status == ExecutionStatus.ERROR
    assert "unknown workflow 'Nope'; known: ns.W" in str(result.error)


def test_several_workflows_and_none_named_is_an_error(engine: Engine) -> None:
    nothing: Any = None
    result = engine.evaluator.execute(nothing, None, compiled("workflow A()\nworkflow B()"))
    assert result.status == ExecutionStatus.ERROR
    assert all(name in str(result.error) for name in ("A", "B"))
