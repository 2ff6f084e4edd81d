"""Expressions as text, for messages: compiled JSON in, what the source said out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from afl.kernel import codec
from afl.language.operators import COMPARISON, CONCAT, PRECEDENCE

MOST_CHARACTERS = 200

_CHOICE, _SIGN, _VALUE = 0, 7, 8  # below and above the levels of the binary operators


def render(expr: Any) -> str:
    """The expression as text; a long one is cut off."""
    text = _written(expr)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."


def _written(expr: Any) -> str:
    if not isinstance(expr, dict):
        return _constant(expr)
    write = _WRITERS.get(expr.get("type", ""))
    if write is not None:
        return write(expr)
    return _constant(expr["value"]) if "value" in expr else str(expr.get("type"))


def _level(expr: Any) -> int:
    """How tightly the parts of an expression belong together."""
    kind = expr.get("type") if isinstance(expr, dict) else None
    if kind == "BinaryExpr":
        return PRECEDENCE.get(expr.get("operator", "+"), _VALUE)
    return {"ConditionalExpr": _CHOICE, "ConcatExpr": CONCAT, "UnaryExpr": _SIGN}.get(str(kind), _VALUE)


def _within(expr: Any, least: int) -> str:
    """An operand, in parentheses if it would be taken apart without."""
    return _written(expr) if _level(expr) >= least else f"({_written(expr)})"


def _constant(value: Any) -> str:
    return codec.encode(value) if value is None or isinstance(value, (str, bool, int, float)) else repr(value)


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(_written(item) for item in items)


def _binary(expr: dict[str, Any]) -> str:
    operator, level = expr.get("operator", "+"), _level(expr)
    left = _within(expr.get("left"), level + (level == COMPARISON))  # comparisons do not chain
    return f"{left} {operator} {_within(expr.get('right'), level + 1)}"


def _conditional(expr: dict[str, Any]) -> str:
    condition = _within(expr.get("condition"), _CHOICE + 1)
    return f"{condition} ? {_written(expr.get('then'))} : {_written(expr.get('otherwise'))}"


def _comprehension(expr: dict[str, Any]) -> str:
    test = f" if {_written(expr['condition'])}" if expr.get("condition") is not None else ""
    source = _written(expr.get("iterable"))
    return f"[{_written(expr.get('element'))} for {expr.get('variable')} in {source}{test}]"


def _map(expr: dict[str, Any]) -> str:
    entries = (f"{_constant(entry['key'])}: {_written(entry['value'])}" for entry in expr.get("entries", []))
    return f"#{{{', '.join(entries)}}}"


_WRITERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "Null": lambda expr: "null",
    "InputRef": lambda expr: ".".join(["$", *expr.get("path", [])]),
    "StepRef": lambda expr: ".".join(expr.get("path", [])),
    "BinaryExpr": _binary,
    "UnaryExpr": lambda expr: f"{expr.get('operator')}{_within(expr.get('operand'), _SIGN)}",
    "ConcatExpr": lambda expr: " ++ ".join(_within(each, CONCAT + 1) for each in expr.get("operands", [])),
    "IndexExpr": lambda expr: f"{_within(expr.get('target'), _VALUE)}[{_written(expr.get('index'))}]",
    "ConditionalExpr": _conditional,
    "FunctionExpr": lambda expr: f"{expr.get('name')}({_listed(expr.get('args', []))})",
    "ArrayLiteral": lambda expr: f"[{_listed(expr.get('elements', []))}]",
    "MapLiteral": _map,
    "Comprehension": _comprehension,
}
