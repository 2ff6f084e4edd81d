"""Expressions: compiled JSON in, values out. Pure: a context gives the values that references lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from afl.kernel.errors import AgentFlowError
from afl.runtime.errors import EvaluationError, UnresolvedReferenceError
from afl.runtime.program import operators
from afl.runtime.program.functions import FUNCTIONS
from afl.runtime.program.rendering import render

FACET_REFERENCE = "_facet_ref"
MOST_COMPREHENDED = 1_000_000


@dataclass(slots=True)
class EvaluationContext:
    """Where references lead: `$` to inputs, `step.attribute` to get_step_output, the loop variable to its value.

    The loop variable, written `x` or `$.x`, hides a parameter and a step of the same name.
    `get_step_output(step, None)` gives the value of a bare step name.
    """

    inputs: Mapping[str, Any]
    get_step_output: Callable[[str, str | None], Any]
    foreach_var: str | None = None
    foreach_value: Any = None
    step_id: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)  # of comprehensions
    elements: Iterator[int] | None = None  # numbers what a comprehension and those inside it go through


Evaluate = Callable[[EvaluationContext], Any]


def compile_expression(expr: Any) -> Evaluate:
    """A function that evaluates the expression; done once per program, called once per step."""
    if isinstance(expr, list):
        return _array(expr)
    if not isinstance(expr, dict):
        return lambda context: expr
    build = _BUILDERS.get(expr.get("type", ""))
    if build is not None:
        return build(expr)
    if "value" in expr:
        value = expr["value"]
        return lambda context: value
    kind = expr.get("type")

    def unknown(context: EvaluationContext) -> Any:
        raise EvaluationError(str(expr), f"Unknown expression type: {kind}", context.step_id)

    return unknown


def references(expr: Any) -> Iterable[tuple[str, ...]]:
    """The paths of all step references (and loop variables) in an expression."""
    pending = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if node.get("type") == "StepRef":
                yield tuple(node.get("path", ()))
            elif node.get("type") == "Comprehension":
                pending.append(node.get("iterable"))
                for inner in references([node.get("element"), node.get("condition")]):
                    if inner[:1] != (node.get("variable"),):
                        yield inner
            else:
                pending.extend(value for value in node.values() if isinstance(value, (dict, list)))
        elif isinstance(node, list):
            pending.extend(node)


def walk(value: Any, path: Iterable[str], reference: str, context: EvaluationContext) -> Any:
    """Follow names into maps, and through references to steps."""
    for name in path:
        if value is None:
            raise UnresolvedReferenceError(reference, "Cannot access property on null", context.step_id)
        if not isinstance(value, dict):
            kind = operators.type_name(value)
            raise UnresolvedReferenceError(reference, f"Cannot access '{name}' on {kind}", context.step_id)
        if name in value:
            value = value[name]
        elif FACET_REFERENCE in value:
            value = context.get_step_output(value["step_id"], name)
        else:
            raise UnresolvedReferenceError(reference, f"Property '{name}' not found", context.step_id)
    return value


def _literal(default: Any) -> Callable[[dict[str, Any]], Evaluate]:
    def build(expr: dict[str, Any]) -> Evaluate:
        value = expr.get("value", default)
        return lambda context: value

    return build


def _input_ref(expr: dict[str, Any]) -> Evaluate:
    path = list(expr.get("path", []))
    name, rest, reference = (path[0] if path else ""), path[1:], ".".join(["$", *path])

    def evaluate(context: EvaluationContext) -> Any:
        if not path:
            raise UnresolvedReferenceError("$", "Empty input reference path", context.step_id)
        if name == context.foreach_var:
            value = context.foreach_value
        elif name in context.inputs:
            value = context.inputs[name]
        else:
            raise UnresolvedReferenceError(reference, f"Input parameter '{name}' not found", context.step_id)
        return walk(value, rest, reference, context) if rest else value

    return evaluate


def _step_ref(expr: dict[str, Any]) -> Evaluate:
    path = list(expr.get("path", []))
    if not path:

        def empty(context: EvaluationContext) -> Any:
            raise UnresolvedReferenceError(
                "", "Step reference requires at least step.attribute", context.step_id
            )

        return empty
    name, attribute, reference = path[0], (path[1] if len(path) > 1 else None), ".".join(path)
    tail, rest = path[1:], path[2:]

    def evaluate(context: EvaluationContext) -> Any:
        if name in context.variables:
            return (
                walk(context.variables[name], tail, reference, context) if tail else context.variables[name]
            )
        if name == context.foreach_var:
            return walk(context.foreach_value, tail, reference, context) if tail else context.foreach_value
        try:
            value = context.get_step_output(name, attribute)
        except AgentFlowError:
            raise
        except Exception as error:  # of whoever made the context
            raise UnresolvedReferenceError(reference, str(error) or repr(error), context.step_id) from error
        return walk(value, rest, reference, context) if rest else value

    return evaluate


def _guard(
    expr: dict[str, Any], context: EvaluationContext, problem: Exception, symbol: str
) -> EvaluationError:
    if isinstance(problem, ZeroDivisionError):
        message = "Division by zero"
    elif symbol == "[]":
        message = f"Index error: {problem}"
    else:
        message = f"Type error in {symbol} operation: {problem}"
    return EvaluationError(render(expr), message, context.step_id, expr.get("location"))


_PROBLEMS = (TypeError, ValueError, ArithmeticError, LookupError)


def _binary(expr: dict[str, Any]) -> Evaluate:
    symbol = expr.get("operator", "+")
    left, right = compile_expression(expr.get("left")), compile_expression(expr.get("right"))
    if symbol in ("&&", "||"):
        return _logical(expr, symbol, left, right)
    apply = operators.BINARY.get(symbol)

    def evaluate(context: EvaluationContext) -> Any:
        if apply is None:
            raise EvaluationError(render(expr), f"Unknown operator: {symbol}", context.step_id)
        first, second = left(context), right(context)
        try:
            return apply(first, second)
        except _PROBLEMS as problem:
            raise _guard(expr, context, problem, symbol) from problem

    return evaluate


def _logical(expr: dict[str, Any], symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    decides = symbol == "||"

    def evaluate(context: EvaluationContext) -> Any:
        try:
            if operators.boolean(left(context), f"'{symbol}'") is decides:
                return decides
            return operators.boolean(right(context), f"'{symbol}'")
        except TypeError as problem:
            raise _guard(expr, context, problem, symbol) from problem

    return evaluate


def _unary(expr: dict[str, Any]) -> Evaluate:
    symbol, operand = expr.get("operator", "-"), compile_expression(expr.get("operand"))

    def evaluate(context: EvaluationContext) -> Any:
        value = operand(context)
        try:
            if symbol == "!":
                return not operators.boolean(value, "'!'")
            return operators.negate(value) if symbol == "-" else value
        except _PROBLEMS as problem:
            raise _guard(expr, context, problem, symbol) from problem

    return evaluate


def _concat(expr: dict[str, Any]) -> Evaluate:
    operands = [compile_expression(operand) for operand in expr.get("operands", [])]
    return lambda context: operators.concatenate([operand(context) for operand in operands])


def _array(elements: list[Any]) -> Evaluate:
    parts = [compile_expression(element) for element in elements]
    return lambda context: [part(context) for part in parts]


def _map(expr: dict[str, Any]) -> Evaluate:
    entries = [(entry["key"], compile_expression(entry["value"])) for entry in expr.get("entries", [])]
    return lambda context: {key: value(context) for key, value in entries}


def _index(expr: dict[str, Any]) -> Evaluate:
    target, key = compile_expression(expr.get("target")), compile_expression(expr.get("index"))

    def evaluate(context: EvaluationContext) -> Any:
        container, position = target(context), key(context)
        if isinstance(container, dict) and FACET_REFERENCE in container and isinstance(position, str):
            return context.get_step_output(container["step_id"], position)
        try:
            return operators.index(container, position)
        except _PROBLEMS as problem:
            raise _guard(expr, context, problem, "[]") from problem

    return evaluate


def _conditional(expr: dict[str, Any]) -> Evaluate:
    condition, then, otherwise = (
        compile_expression(expr.get(key)) for key in ("condition", "then", "otherwise")
    )

    def evaluate(context: EvaluationContext) -> Any:
        try:
            chosen = operators.boolean(condition(context), "'?'")
        except TypeError as problem:
            raise _guard(expr, context, problem, "?") from problem
        return then(context) if chosen else otherwise(context)

    return evaluate


def _function(expr: dict[str, Any]) -> Evaluate:
    name, args = expr.get("name", ""), [compile_expression(arg) for arg in expr.get("args", [])]
    apply = FUNCTIONS.get(name)

    def evaluate(context: EvaluationContext) -> Any:
        if apply is None:
            raise EvaluationError(
                render(expr), f"Unknown function: {name}", context.step_id, expr.get("location")
            )
        values = [arg(context) for arg in args]
        try:
            return apply(*values)
        except _PROBLEMS as problem:
            raise _failed(expr, context, f"{name}: {problem}") from problem

    return evaluate


def _comprehension(expr: dict[str, Any]) -> Evaluate:
    element, iterable = compile_expression(expr.get("element")), compile_expression(expr.get("iterable"))
    name = expr.get("variable", "")
    test = None if expr.get("condition") is None else compile_expression(expr["condition"])

    def evaluate(context: EvaluationContext) -> Any:
        source = iterable(context)
        if isinstance(source, dict):
            source = [{"key": key, "value": value} for key, value in source.items()]
        elif not isinstance(source, list):
            kind = operators.type_name(source)
            raise _failed(expr, context, f"'{name}' runs over a list or a map, got {kind}")
        found = []
        elements = count() if context.elements is None else context.elements
        for value in source:
            if next(elements) >= MOST_COMPREHENDED:
                limit = f"{MOST_COMPREHENDED:,} elements, those of inner ones included"
                raise _failed(expr, context, f"a comprehension goes through at most {limit}")
            inner = replace(context, variables={**context.variables, name: value}, elements=elements)
            try:
                wanted = test is None or operators.boolean(test(inner), "'if'")
            except TypeError as problem:
                raise _guard(expr, context, problem, "if") from problem
            if wanted:
                found.append(element(inner))
        return found

    return evaluate


def _failed(expr: dict[str, Any], context: EvaluationContext, message: str) -> EvaluationError:
    return EvaluationError(render(expr), message, context.step_id, expr.get("location"))


_BUILDERS: dict[str, Callable[[dict[str, Any]], Evaluate]] = {
    "String": _literal(""),
    "Int": _literal(0),
    "Double": _literal(0.0),
    "Boolean": _literal(False),
    "Null": _literal(None),
    "InputRef": _input_ref,
    "StepRef": _step_ref,
    "BinaryExpr": _binary,
    "UnaryExpr": _unary,
    "ConcatExpr": _concat,
    "ArrayLiteral": lambda expr: _array(expr.get("elements", [])),
    "MapLiteral": _map,
    "IndexExpr": _index,
    "ConditionalExpr": _conditional,
    "FunctionExpr": _function,
    "Comprehension": _comprehension,
}


class ExpressionEvaluator:
    """Evaluates single expressions."""

    def evaluate(self, expr: Any, ctx: EvaluationContext) -> Any:
        """The value of an expression; EvaluationError or ReferenceError when it has none."""
        return compile_expression(expr)(ctx)


def evaluate_args(args: Iterable[Mapping[str, Any]], ctx: EvaluationContext) -> dict[str, Any]:
    """The values of named arguments."""
    return {arg["name"]: compile_expression(arg["value"])(ctx) for arg in args}
