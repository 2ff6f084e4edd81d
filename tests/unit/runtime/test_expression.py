"""Expressions: every node, every error."""

from __future__ import annotations

from typing import Any

import pytest
from runtime_programs import arg, compiled, dollar, plus, ref, workflow_of

from afl.runtime.errors import EvaluationError, ReferenceError
from afl.runtime.program.expression import (
    EvaluationContext,
    ExpressionEvaluator,
    evaluate_args,
    references,
)
from afl.runtime.program.rendering import MOST_CHARACTERS, render

STEPS = {"a": {"x": 1, "deep": {"y": {"z": 2}}, "none": None, "text": "t"}}


def output(step: str, attribute: str | None) -> Any:
    if step not in STEPS:
        raise ReferenceError(f"{step}.{attribute}", f"no step {step}")
    return STEPS[step] if attribute is None else STEPS[step][attribute]


def value_of(expr: Any, **inputs: Any) -> Any:
    return ExpressionEvaluator().evaluate(expr, EvaluationContext(inputs, output, step_id="s1"))


def binary(operator: str, left: Any, right: Any) -> dict[str, Any]:
    return {"type": "BinaryExpr", "operator": operator, "left": left, "right": right}


def concat(*operands: Any) -> dict[str, Any]:
    return {"type": "ConcatExpr", "operands": list(operands)}


def error_of(expr: Any, **inputs: Any) -> str:
    with pytest.raises((EvaluationError, ReferenceError)) as caught:
        value_of(expr, **inputs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ({"type": "String", "value": "x"}, "x"),
        ({"type": "String"}, ""),
        ({"type": "Int", "value": 3}, 3),
        ({"type": "Int"}, 0),
        ({"type": "Double", "value": 1.5}, 1.5),
        ({"type": "Boolean", "value": True}, True),
        ({"type": "Boolean"}, False),
        ({"type": "Null"}, None),
        ({"type": "Whatever", "value": [1]}, [1]),
    ],
)
def test_literals(expr: Any, value: Any) -> None:
    assert value_of(expr) == value


@pytest.mark.parametrize("raw", ["x", 1, 1.5, True, None])
def test_raw_values_pass_through(raw: Any) -> None:
    assert value_of(raw) is raw


def test_any_other_object_is_returned_as_it_is() -> None:
    thing = object()
    assert value_of(thing) is thing


def test_a_list_is_evaluated_element_by_element() -> None:
    assert value_of([1, dollar("i"), [ref("a", "x")], {"type": "String", "value": "s"}], i=2) == [
        1,
        2,
        [1],
        "s",
    ]


def test_input_references() -> None:
    assert value_of(dollar("i"), i=5) == 5
    assert value_of(dollar("i", "b", "c"), i={"b": {"c": 1}}) == 1
    assert value_of(dollar("i"), i=None) is None


def test_step_references() -> None:
    assert value_of(ref("a", "x")) == 1
    assert value_of(ref("a", "deep", "y", "z")) == 2
    assert value_of(ref("a", "none")) is None


def test_a_bare_step_name_is_a_reference_to_the_step() -> None:
    assert value_of(ref("a")) == STEPS["a"]


def test_the_loop_variable_is_read_with_and_without_dollar() -> None:
    context = EvaluationContext({}, output, foreach_var="r", foreach_value={"name": "n"})
    evaluate = ExpressionEvaluator().evaluate
    assert evaluate(dollar("r", "name"), context) == "n"
    assert evaluate(ref("r", "name"), context) == "n"
    assert evaluate(ref("r"), context) == {"name": "n"}


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (dollar(), "Empty input reference path"),
        (dollar("nope"), "Input parameter 'nope' not found"),
        (ref(), "Step reference requires at least step.attribute"),
        (ref("a", "none", "x"), "Cannot access property on null"),
        (ref("a", "deep", "q"), "Property 'q' not found"),
        (ref("a", "text", "upper"), "Cannot access 'upper' on String"),
        (ref("a", "x", "real"), "Cannot access 'real' on Long"),
        (dollar("i", "__class__"), "Cannot access '__class__' on List"),
    ],
)
def test_references_that_lead_nowhere(expr: Any, message: str) -> None:
    assert message in error_of(expr, i=[1])
    assert "in step s1" in error_of(expr, i=[1])


@pytest.mark.parametrize(("operator", "value"), [("+", 12), ("-", 8), ("*", 20), ("/", 5.0), ("%", 0)])
def test_arithmetic(operator: str, value: Any) -> None:
    found = value_of(binary(operator, 10, 2))
    assert found == value
    assert type(found) is type(value)


def test_the_operator_is_plus_unless_named() -> None:
    assert value_of({"type": "BinaryExpr", "left": 1, "right": 2}) == 3


def test_operands_are_expressions() -> None:
    assert value_of(plus(dollar("i"), plus(ref("a", "x"), 1)), i=5) == 7


@pytest.mark.parametrize("operator", ["/", "%"])
def test_division_by_zero(operator: str) -> None:
    assert error_of(binary(operator, 1, 0)) == (
        f"Evaluation error in step s1: Division by zero (expression: 1 {operator} 0)"
    )


def test_an_unknown_operator() -> None:
    assert "Unknown operator: **" in error_of(binary("**", 1, 2))


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "<", ">="])
def test_operands_that_do_not_fit(operator: str) -> None:
    assert f"Type error in {operator} operation" in error_of(binary(operator, 1, None))
    assert f"Type error in {operator} operation" in error_of(binary(operator, "a", 1))


def test_an_unknown_expression() -> None:
    assert "Unknown expression type: Bogus" in error_of({"type": "Bogus"})


def test_errors_carry_the_source_position() -> None:
    expr = {**binary("/", 1, 0), "location": {"line": 3, "column": 9}}
    with pytest.raises(EvaluationError) as caught:
        value_of(expr)
    assert caught.value.location == {"line": 3, "column": 9}


def test_concatenation_makes_text_as_json_writes_it() -> None:
    assert value_of(concat("a", "b", "c")) == "abc"
    assert value_of(concat("n=", 1, " ", 1.5)) == "n=1 1.5"
    assert value_of(concat("", True, None, [1, "x"], dollar("m")), m={"k": None}) == 'true[1,"x"]{"k":null}'


def test_concatenation_of_lists_is_a_list() -> None:
    assert value_of(concat([1], dollar("xs"), []), xs=[2]) == [1, 2]


@pytest.mark.parametrize(
    ("operator", "left", "right", "value"),
    [
        ("&&", True, False, False),
        ("&&", True, True, True),
        ("||", False, True, True),
        ("||", False, False, False),
    ],
)
def test_logic(operator: str, left: bool, right: bool, value: bool) -> None:
    assert value_of(binary(operator, left, right)) is value


def test_logic_looks_no_further_than_it_must() -> None:
    bad = binary("/", 1, 0)
    assert value_of(binary("&&", False, bad)) is False
    assert value_of(binary("||", True, bad)) is True
    assert "Division by zero" in error_of(binary("||", False, bad))


def test_logic_takes_booleans_only() -> None:
    assert "needs a Boolean, got Long" in error_of(binary("&&", 1, True))


def test_unary_operators() -> None:
    assert value_of({"type": "UnaryExpr", "operator": "-", "operand": 2}) == -2
    assert value_of({"type": "UnaryExpr", "operator": "!", "operand": False}) is True
    assert "cannot negate String" in error_of({"type": "UnaryExpr", "operator": "-", "operand": "x"})
    assert "needs a Boolean" in error_of({"type": "UnaryExpr", "operator": "!", "operand": 1})


def test_arrays_maps_and_indexing() -> None:
    array = {"type": "ArrayLiteral", "elements": [1, dollar("i")]}
    entries = [{"key": "k", "value": ref("a", "x")}, {"key": "n", "value": None}]
    assert value_of(array, i=2) == [1, 2]
    assert value_of({"type": "MapLiteral", "entries": entries}) == {"k": 1, "n": None}
    assert value_of({"type": "IndexExpr", "target": array, "index": 1}, i=2) == 2
    assert value_of({"type": "IndexExpr", "target": dollar("m"), "index": "k"}, m={"k": 7}) == 7


@pytest.mark.parametrize(("target", "index"), [([1], 5), ([1], "x"), ({"k": 1}, "q"), ("text", 0)])
def test_an_index_that_is_not_there(target: Any, index: Any) -> None:
    expr = {"type": "IndexExpr", "target": {"type": "Any", "value": target}, "index": index}
    assert "Index error:" in error_of(expr)


def test_evaluate_args() -> None:
    context = EvaluationContext({"i": 1}, output)
    assert evaluate_args([arg("a", dollar("i")), arg("b", ref("a", "x")), arg("c", "raw")], context) == {
        "a": 1,
        "b": 1,
        "c": "raw",
    }
    assert evaluate_args([], context) == {}


def test_references_are_found_anywhere() -> None:
    indexed = {"type": "IndexExpr", "target": ref("c"), "index": 0}
    expr = concat(ref("a", "x"), [plus(ref("b", "y"), dollar("i"))], indexed)
    assert set(references(expr)) == {("a", "x"), ("b", "y"), ("c",)}


def test_expressions_are_shown_as_written() -> None:
    assert render(plus(dollar("i", "n"), ref("a", "x"))) == "$.i.n + a.x"
    assert render(concat("a", {"type": "IndexExpr", "target": ref("b", "c"), "index": 0})) == '"a" ++ b.c[0]'


@pytest.mark.parametrize(
    "text",
    [
        "(1 + 2) * 3 - 4 - (5 - 6)",
        '"a" ++ 1 + 2 ++ ("b" ++ [1, -2.5])',
        "!($.a && (true || $.b)) && -(1 + $.n) < 3",
        '#{"one": [x.key for x in $.m if x.value > 0], "two": null}["one"][0]',
        '($.a ? 1 : 2) == len("two words") ? "yes" : $.b ? "no" : "maybe"',
        '(1 == 2) == ("a" not in ["b"])',
    ],
)
def test_expressions_are_shown_with_the_parentheses_that_they_need(text: str) -> None:
    source = (
        f"workflow W(a: Boolean, b: Boolean, n: Long, m: Map) => (r: Json) andThen {{ yield W(r = {text}) }}"
    )
    body = workflow_of(compiled(source))["body"]
    assert render(body["yield"]["call"]["args"][0]["value"]) == text


def test_a_long_expression_is_cut_off() -> None:
    shown = render({"type": "ArrayLiteral", "elements": list(range(1000))})
    assert len(shown) == MOST_CHARACTERS
    assert shown.startswith("[0, 1, 2,")
    assert shown.endswith("...")


def test_what_the_context_raises_is_an_error_of_the_reference() -> None:
    def broken(step: str, attribute: str | None) -> Any:
        raise KeyError(step)

    with pytest.raises(ReferenceError, match=r"in step s1: 'a' \(reference: a\.x\)") as caught:
        ExpressionEvaluator().evaluate(ref("a", "x"), EvaluationContext({}, broken, step_id="s1"))
    assert isinstance(caught.value.__cause__, KeyError)
