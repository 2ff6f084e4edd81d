"""Values in the model: what a step holds, what names mean at a place, and what expressions come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from support.model_functions import FUNCTIONS, MISUSES, has, same, stored, text

Json = dict[str, Any]


class Problem(Exception):
    """Why a step failed; `text` is empty where the wording is the engine's own affair."""

    def __init__(self, kind: str, text: str = "") -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text


@dataclass(frozen=True)
class Failure:
    """A failed step, as the run reports it."""

    step: str
    kind: str
    text: str


class Passed(Problem):
    """A failure that already has its place."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.kind, failure.text)
        self.failure = failure


class Endless(Exception):
    """A step waits for what never comes."""


@dataclass
class Step:
    """A step that ran: parameters and returns, and whether it failed."""

    params: Json
    returns: Json = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def seen(self) -> Json:
        return {**self.params, **self.returns}


@dataclass
class Scope:
    """What names mean at a place: `$`, the steps of the block, its loop variable, then the enclosing block.

    The variables of comprehensions hide all of them.
    """

    inputs: Json
    steps: dict[str, Step | None] = field(default_factory=dict)
    loop: Json = field(default_factory=dict)
    outer: Scope | None = None
    variables: Json = field(default_factory=dict)

    def find(self, name: str) -> Step | Json | None:
        if name in self.variables:
            return {"value": self.variables[name]}
        if name in self.steps:
            return self.steps[name]
        if name in self.loop:
            return {"value": self.loop[name]}
        if self.outer is None:
            raise Problem("UnresolvedReferenceError")
        return self.outer.find(name)

    def lost(self, name: str) -> bool:
        """Whether a name means a step that failed or was skipped."""
        found = self.find(name)
        return found is None or (isinstance(found, Step) and found.failure is not None)


def fits(value: Any, kind: Any) -> bool:
    """Whether a value may stand where a type is asked for; null may stand anywhere."""
    if value is None:
        return True
    if isinstance(kind, dict):
        return isinstance(value, list) and all(fits(item, kind["elementType"]) for item in value)
    wanted = {"Long": (int,), "Int": (int,), "Double": (int, float), "String": (str,), "Boolean": (bool,)}
    return kind not in wanted or type(value) in wanted[kind]


def truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Problem("EvaluationError")
    return value


def value_of(node: Any, scope: Scope) -> Any:
    """The value of an expression."""
    kind = node["type"]
    if kind == "Null":
        return None
    if kind == "InputRef":
        return _walk({**scope.inputs, **scope.loop}, node["path"])
    if kind == "StepRef":
        return _step_value(node["path"], scope)
    if kind == "ArrayLiteral":
        return [value_of(each, scope) for each in node.get("elements", [])]
    if kind == "MapLiteral":
        return {each["key"]: value_of(each["value"], scope) for each in node.get("entries", [])}
    if kind == "ConcatExpr":
        return _concatenated([value_of(each, scope) for each in node["operands"]])
    if kind == "UnaryExpr":
        operand = value_of(node["operand"], scope)
        return not truth(operand) if node["operator"] == "!" else -operand
    if kind == "IndexExpr":
        return _indexed(value_of(node["target"], scope), value_of(node["index"], scope))
    if kind == "BinaryExpr":
        return _binary(node, scope)
    if kind == "ConditionalExpr":
        return value_of(node["then" if truth(value_of(node["condition"], scope)) else "otherwise"], scope)
    if kind == "FunctionExpr":
        return _called(node["name"], [value_of(each, scope) for each in node.get("args", [])])
    if kind == "Comprehension":
        return _comprehended(node, scope)
    return node["value"]


def _called(name: str, values: list[Any]) -> Any:
    try:
        return FUNCTIONS[name](*values)
    except MISUSES as problem:
        raise Problem("EvaluationError") from problem


def _comprehended(node: Json, scope: Scope) -> list[Any]:
    items = value_of(node["iterable"], scope)
    if isinstance(items, dict):
        items = [{"key": key, "value": value} for key, value in items.items()]
    if not isinstance(items, list):
        raise Problem("EvaluationError")
    inner = [replace(scope, variables={**scope.variables, node["variable"]: item}) for item in items]
    return [
        value_of(node["element"], each)
        for each in inner
        if "condition" not in node or truth(value_of(node["condition"], each))
    ]


def _walk(value: Any, path: list[str]) -> Any:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            raise Problem("UnresolvedReferenceError")
        value = value[name]
    return value


def _step_value(path: list[str], scope: Scope) -> Any:
    found = scope.find(path[0])
    if isinstance(found, dict):
        return _walk(found["value"], path[1:])
    if found is None:
        raise Problem("UnresolvedReferenceError")
    if len(path) == 1:
        return dict(found.returns)
    return _walk(found.seen, path[1:])


def _concatenated(values: list[Any]) -> Any:
    if all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    return "".join(text(value) for value in values)


def _indexed(target: Any, key: Any) -> Any:
    try:
        return target[key]
    except (LookupError, TypeError) as problem:
        raise Problem("EvaluationError") from problem


def _numbers(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if not {type(left), type(right)} <= {int, float}:
            raise TypeError(left, right)
        return apply(left, right)

    return run


def _orders(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: (
        apply(left, right) if type(left) is type(right) is str else _numbers(apply)(left, right)
    )


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": _numbers(lambda a, b: a + b),
    "-": _numbers(lambda a, b: a - b),
    "*": _numbers(lambda a, b: a * b),
    "/": _numbers(lambda a, b: a / b),
    "%": _numbers(lambda a, b: a % b),
    "<": _orders(lambda a, b: a < b),
    "<=": _orders(lambda a, b: a <= b),
    ">": _orders(lambda a, b: a > b),
    ">=": _orders(lambda a, b: a >= b),
    "==": same,
    "!=": lambda a, b: not same(a, b),
    "in": lambda a, b: has(b, a),
    "not in": lambda a, b: not has(b, a),
    "contains": has,
    "startsWith": lambda a, b: text(a).startswith(text(b)),
    "endsWith": lambda a, b: text(a).endswith(text(b)),
}


def _binary(node: Json, scope: Scope) -> Any:
    operator, left = node["operator"], value_of(node["left"], scope)
    if operator in ("&&", "||"):
        if truth(left) is (operator == "||"):
            return left
        return truth(value_of(node["right"], scope))
    right = value_of(node["right"], scope)
    try:
        return stored(_OPERATORS[operator](left, right))
    except MISUSES as problem:
        raise Problem("EvaluationError") from problem
