"""The operators of the expression language, on plain values. They raise TypeError, ValueError or ZeroDivisionError."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from afl.kernel import codec

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NAMES = {
    type(None): "null",
    bool: "Boolean",
    int: "Long",
    float: "Double",
    str: "String",
    list: "List",
    dict: "Map",
}


def type_name(value: Any) -> str:
    """The language's name for the type of a value."""
    return _NAMES.get(type(value), type(value).__name__)


def text_of(value: Any) -> str:
    """How a value reads inside a string: null is empty, everything else but strings is JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else codec.encode(value)


def concatenate(values: list[Any]) -> Any:
    """`++`: lists make one list, anything else makes text."""
    if values and all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    return "".join(text_of(value) for value in values)


def is_number(value: Any) -> bool:
    """Whether arithmetic takes the value; booleans are no numbers."""
    return type(value) in (int, float)


def boolean(value: Any, where: str) -> bool:
    """The value as a condition."""
    if not isinstance(value, bool):
        raise TypeError(f"{where} needs a Boolean, got {type_name(value)}")
    return value


def is_int64(value: int) -> bool:
    """Whether the language has this integer: its integers have 64 bits."""
    return _INT64_MIN <= value <= _INT64_MAX


def in_range(value: Any) -> Any:
    """An arithmetic result that can be stored: a 64-bit integer or a finite float."""
    if type(value) is int and not is_int64(value):
        raise ValueError("the result does not fit a 64-bit integer")
    if type(value) is float and not math.isfinite(value):
        raise ValueError("the result is not a finite number")
    return value


def _arithmetic(symbol: str, apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if not (is_number(left) and is_number(right)):
            hint = " (use '++' to join text)" if symbol == "+" and str in (type(left), type(right)) else ""
            raise TypeError(f"cannot combine {type_name(left)} and {type_name(right)}{hint}")
        return in_range(apply(left, right))

    return run


def _ordered(apply: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(left: Any, right: Any) -> bool:
        both_text = isinstance(left, str) and isinstance(right, str)
        if not (both_text or (is_number(left) and is_number(right))):
            raise TypeError(f"cannot compare {type_name(left)} with {type_name(right)}")
        return apply(left, right)

    return run


def equal(left: Any, right: Any) -> bool:
    """Deep equality; true is not 1."""
    if isinstance(left, bool) is not isinstance(right, bool) or left != right:
        return False
    if isinstance(left, list):
        return all(map(equal, left, right))
    if isinstance(left, dict):
        return all(equal(value, right[key]) for key, value in left.items())
    return True


def contains(container: Any, item: Any) -> bool:
    """Whether a list has an element, a map a key, a text a part."""
    if isinstance(container, str):
        return text_of(item) in container
    if isinstance(container, list):
        return any(equal(item, element) for element in container)
    if isinstance(container, dict):
        return isinstance(item, str) and item in container
    raise TypeError(f"cannot look into {type_name(container)}")


def index(target: Any, key: Any) -> Any:
    """`target[key]` for lists (negative counts from the end) and maps."""
    if isinstance(target, list):
        if type(key) is not int:
            raise TypeError(f"a list is indexed by a number, got {type_name(key)}")
        if not -len(target) <= key < len(target):
            raise LookupError(f"index {key} is outside a list of {len(target)}")
        return target[key]
    if isinstance(target, dict):
        if not isinstance(key, str) or key not in target:
            raise LookupError(f"no key {key!r} in the map")
        return target[key]
    raise TypeError(f"cannot index {type_name(target)}")


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": _arithmetic("+", operator.add),
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", operator.truediv),
    "%": _arithmetic("%", operator.mod),
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": lambda left, right: contains(right, left),
    "not in": lambda left, right: not contains(right, left),
    "contains": contains,
    "startsWith": lambda left, right: text_of(left).startswith(text_of(right)),
    "endsWith": lambda left, right: text_of(left).endswith(text_of(right)),
}


def negate(value: Any) -> Any:
    """Unary minus."""
    if not is_number(value):
        raise TypeError(f"cannot negate {type_name(value)}")
    return in_range(-value)
