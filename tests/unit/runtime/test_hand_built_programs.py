"""Programs that no compiler made: what the runtime accepts beyond the emitter's output."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine
from runtime_programs import Ast, arg, dollar, giving, plus, ref, step

from afl.runtime.evaluator import ExecutionStatus


def workflow(*steps: Ast, **outputs: Any) -> Ast:
    return {"name": "W", "body": {"steps": list(steps), "yield": giving("W", **outputs)}}


@pytest.mark.parametrize("ast", [{"name": "W"}, {"name": "W", "params": []}, {"name": "W", "returns": []}])
def test_body_params_and_returns_may_be_missing(engine: Engine, ast: Ast) -> None:
    result = engine.run_ast(ast)
    assert (result.success, result.status, result.outputs) == (True, ExecutionStatus.COMPLETED, {})


def test_a_raw_default(engine: Engine) -> None:
    ast = workflow(step("a", "N", n=plus(dollar("i"), 1)), o=ref("a", "n"))
    assert engine.run_ast({**ast, "params": [{"name": "i", "type": "Long", "default": 1}]}).outputs == {
        "o": 2
    }
    assert engine.run_ast({**ast, "params": [{"name": "i", "default": 42}]}).outputs == {"o": 43}


def test_undeclared_inputs_are_readable_when_nothing_is_declared(engine: Engine) -> None:
    assert engine.run_ast(workflow(step("a", "N", n=dollar("x")), o=ref("a", "n")), {"x": 5}).outputs == {
        "o": 5
    }


def test_an_input_nobody_gave_is_an_error_where_it_is_read(engine: Engine) -> None:
    result = engine.run_ast(workflow(step("a", "N", n=dollar("x"))))
    assert result.status == ExecutionStatus.ERROR
    assert "Input parameter 'x' not found" in str(result.error)


@pytest.mark.parametrize("raw", ["text", 7, 1.5, True, None, [1, None, "x"]])
def test_raw_values_as_expressions(engine: Engine, raw: Any) -> None:
    result = engine.run_ast(workflow(step("a", "N", n=raw), o=ref("a", "n"), p=raw))
    assert result.outputs == {"o": raw, "p": raw}


def test_lists_hold_expressions(engine: Engine) -> None:
    ast = workflow(step("a", "N", n=[1, dollar("i")]), o=[ref("a", "n"), plus(dollar("i"), 1)])
    assert engine.run_ast(ast, {"i": 2}).outputs == {"o": [[1, 2], 3]}


def test_statements_without_ids_are_known_by_name_and_position(engine: Engine) -> None:
    ast = {"name": "W", "body": {"steps": [step("a", "N")], "yields": [giving("W", o=1), giving("W", p=2)]}}
    assert engine.run_ast(ast).outputs == {"o": 1, "p": 2}
    statements = [each.statement_id for each in engine.store.get_all_steps() if each.statement_id]
    assert len(statements) == len(set(statements)) == 3
    assert "a" in statements


def test_statement_ids_are_those_of_the_program(engine: Engine) -> None:
    engine.run_ast({"name": "W", "body": {"steps": [{**step("a", "N"), "id": "id-a"}]}})
    assert engine.step("a").statement_id == "id-a"


def test_yields_win_over_yield(engine: Engine) -> None:
    body = {"steps": [], "yields": [giving("W", o=1), giving("W", p=2)], "yield": giving("W", q=3)}
    assert engine.run_ast({"name": "W", "body": body}).outputs == {"o": 1, "p": 2}


def test_a_body_may_be_a_list_of_blocks(engine: Engine) -> None:
    blocks = [
        {"steps": [step("a", "N", n=i)], "yield": giving("W", **{f"o{i}": ref("a", "n")})} for i in range(3)
    ]
    result = engine.run_ast({"name": "W", "body": blocks})
    assert result.outputs == {"o0": 0, "o1": 1, "o2": 2}
    assert engine.store.step_count() == 10


def test_an_empty_list_of_blocks_is_no_body(engine: Engine) -> None:
    assert engine.run_ast({"name": "W", "body": []}).iterations == 2


def test_a_step_may_carry_its_body(engine: Engine) -> None:
    inner = {"steps": [step("u", "N", n=dollar("n"))], "yield": giving("N", m=plus(ref("u", "n"), 1))}
    ast = workflow({**step("a", "N", n=4), "body": inner}, o=ref("a", "m"))
    assert engine.run_ast(ast).outputs == {"o": 5}


def test_type_tags_do_not_matter(engine: Engine) -> None:
    tagged = {
        "type": "StepStmt",
        "name": "a",
        "call": {"type": "CallExpr", "target": "N", "args": [arg("n", 1)]},
    }
    body = {
        "type": "AndThenBlock",
        "steps": [tagged],
        "yield": {"type": "YieldStmt", **giving("W", o=ref("a", "n"))},
    }
    result = engine.run_ast({"type": "WorkflowDecl", "name": "W", "body": body})
    assert result.outputs == {"o": 1}


def test_a_dict_of_unknown_type_gives_its_value(engine: Engine) -> None:
    assert engine.run_ast(workflow(o={"type": "Blob", "value": {"k": [1]}})).outputs == {"o": {"k": [1]}}


def test_an_unknown_expression_fails_its_step(engine: Engine) -> None:
    result = engine.run_ast(workflow(step("a", "N", n={"type": "Bogus"})))
    assert result.status == ExecutionStatus.ERROR
    assert "Unknown expression type: Bogus" in str(result.error)


def test_without_a_program_any_facet_passes_through(engine: Engine) -> None:
    result = engine.run_ast(workflow(step("a", "nobody.knows.F", n=1), o=ref("a", "n")))
    assert result.outputs == {"o": 1}


def test_an_unknown_facet_of_a_known_program_is_an_error(engine: Engine) -> None:
    program = {"declarations": [{"type": "FacetDecl", "name": "Value"}]}
    result = engine.run_ast(workflow(step("a", "Valeu")), None, program)
    assert result.status == ExecutionStatus.ERROR
    assert "unknown facet 'Valeu'; did you mean 'Value'?" in str(result.error)


EVENT = {"type": "EventFacetDecl", "name": "F", "params": [{"name": "n", "type": "Long"}]}


@pytest.mark.parametrize("namespace", ["ns", "a.b", "a.b.c"])
@pytest.mark.parametrize("short", [True, False])
def test_event_facets_in_namespaces_however_deep(engine: Engine, namespace: str, short: bool) -> None:
    program = {"declarations": [{"type": "Namespace", "name": namespace, "declarations": [EVENT]}]}
    target = "F" if short else f"{namespace}.F"
    result = engine.run_ast(workflow(step("a", target, n=1), o=ref("a", "m")), None, program)
    assert result.status == ExecutionStatus.PAUSED
    assert [task.name for task in engine.tasks] == [f"{namespace}.F"]
    assert engine.waiting[0].facet_name == f"{namespace}.F"
    assert engine.answer(m=2).outputs == {"o": 2}


def test_namespaces_may_nest(engine: Engine) -> None:
    inner = {"type": "Namespace", "name": "b", "declarations": [EVENT]}
    program = {"declarations": [{"type": "Namespace", "name": "a", "declarations": [inner]}]}
    engine.run_ast(workflow(step("s", "a.b.F", n=1)), None, program)
    assert [task.name for task in engine.tasks] == ["a.b.F"]


def test_a_workflow_among_the_declarations_is_tolerated(engine: Engine) -> None:
    ast = {"type": "WorkflowDecl", **workflow(step("a", "N", n=1), o=ref("a", "n"))}
    program = {"declarations": [{"type": "FacetDecl", "name": "N"}, ast]}
    assert engine.run_ast(ast, None, program).outputs == {"o": 1}


def test_a_workflow_called_as_a_step_runs_its_body(engine: Engine) -> None:
    inner = {"type": "WorkflowDecl", "name": "Inner", "body": {"yield": giving("Inner", r=7)}}
    program = {"declarations": [inner]}
    assert engine.run_ast(workflow(step("a", "Inner"), o=ref("a", "r")), None, program).outputs == {"o": 7}


def test_a_cycle_is_an_error(engine: Engine) -> None:
    result = engine.run_ast(workflow(step("a", "N", n=ref("b", "n")), step("b", "N", n=ref("a", "n"))))
    assert result.status == ExecutionStatus.ERROR
    assert "wait for each other: a, b" in str(result.error)


def test_a_reference_to_itself_is_an_error(engine: Engine) -> None:
    result = engine.run_ast(workflow(step("a", "N", n=ref("a", "n"))))
    assert result.status == ExecutionStatus.ERROR


def test_a_reference_to_no_step_is_an_error(engine: Engine) -> None:
    result = engine.run_ast(workflow(step("a", "N", n=ref("nobody", "n"))))
    assert result.status == ExecutionStatus.ERROR
    assert "Reference to undefined step 'nobody'" in str(result.error)


def test_what_is_no_plain_data_is_refused_and_leaves_nothing(engine: Engine) -> None:
    result = engine.run_ast(workflow(step("a", "N", n=object())))
    assert result.status == ExecutionStatus.ERROR
    assert "not plain JSON data" in str(result.error)
    assert engine.store.step_count() == 0
