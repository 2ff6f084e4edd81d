"""The functions of expressions as their documentation describes them, for the model: short, and apart from the engine.

A function given something it cannot work on raises any of `MISUSES`; which one, and in what words, is left open.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

MISUSES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError)


def text(value: Any) -> str:
    """A value inside a text: null is empty, all but texts is JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def same(left: Any, right: Any) -> bool:
    """As `==`: true is not 1."""
    return left == right and _shape(left) == _shape(right)


def _shape(value: Any) -> Any:
    """Where a value has Booleans."""
    if isinstance(value, list):
        return [_shape(each) for each in value]
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    return isinstance(value, bool)


def has(container: Any, item: Any) -> bool:
    """As `contains`."""
    if isinstance(container, str):
        return text(item) in container
    if isinstance(container, list):
        return any(same(each, item) for each in container)
    return item in _of(dict, container)


def stored(value: Any) -> Any:
    """A number that fits a column: 64 bits, or a finite float."""
    if type(value) is int:
        assert -(2**63) <= value < 2**63
    elif type(value) is float:
        assert math.isfinite(value)
    return value


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(value)
    return value


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise TypeError(value)
    return value


def _ordered(values: Any) -> list[Any]:
    kinds = {type(each) for each in _of(list, values)}
    if not (kinds <= {int, float} or kinds == {str}):
        raise TypeError(values)
    return sorted(values)


def _distinct(values: Any) -> list[Any]:
    kept: list[Any] = []
    for each in _of(list, values):
        if not any(same(each, other) for other in kept):
            kept.append(each)
    return kept


def _end(position: int) -> Callable[..., Any]:
    return lambda values, *default: (_of(list, values) or list(default))[position]


def _slice(value: Any, start: Any, end: Any = None) -> Any:
    return (value if isinstance(value, str) else _of(list, value))[_of(int, start) : end]


def _range(start: Any, end: Any = None, step: Any = 1) -> list[int]:
    return list(range(start, end, step) if end is not None else range(start))


def _format(template: Any, *values: Any) -> str:
    left = iter(values)

    def fill(part: re.Match[str]) -> str:
        if part[1] is None:
            return part[0][0]
        return text(values[int(part[1])] if part[1] else _next(left))

    return re.sub(r"\{\{|\}\}|\{(\d*)\}", fill, _of(str, template))


def _next(values: Any) -> Any:
    for each in values:
        return each
    raise ValueError("no value is left")


def _parsed(written: Any) -> Any:
    try:
        return int(written)
    except ValueError:
        return stored(float(written))


def _merged(*maps: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for each in maps:
        merged |= _of(dict, each)
    return merged


_SECONDS = {"ms": 0.001, "seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}


def _moved(moment: str, amount: Any, unit: Any) -> str:
    span = timedelta(seconds=_SECONDS[unit] * _number(amount))
    if "T" not in moment:
        assert span % timedelta(days=1) == timedelta()
        return (date.fromisoformat(moment) + span).isoformat()
    return (datetime.fromisoformat(moment) + span).isoformat().replace("+00:00", "Z")


def _between(start: str, end: str, unit: Any) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() / _SECONDS[unit]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": lambda value: len(value),
    "upper": lambda value: _of(str, value).upper(),
    "lower": lambda value: _of(str, value).lower(),
    "trim": lambda value: _of(str, value).strip(),
    "split": lambda value, separator: _of(str, value).split(_of(str, separator)),
    "join": lambda values, separator: _of(str, separator).join(map(text, _of(list, values))),
    "replace": lambda value, old, new: _of(str, new).join(_of(str, value).split(old)),
    "contains": has,
    "format": _format,
    "string": text,
    "number": lambda value: _parsed(_of(str, value)),
    "range": _range,
    "slice": _slice,
    "sort": lambda values, field=None: (
        _ordered(values) if field is None else sorted(values, key=lambda each: each[field])
    ),
    "reverse": lambda values: list(reversed(_of(list, values))),
    "distinct": _distinct,
    "flatten": lambda values: [each for inner in _of(list, values) for each in _of(list, inner)],
    "sum": lambda values: stored(sum(_number(each) for each in _of(list, values))),
    "min": lambda values: _ordered(values)[0],
    "max": lambda values: _ordered(values)[-1],
    "first": _end(0),
    "last": _end(-1),
    "keys": lambda value: [*_of(dict, value)],
    "values": lambda value: [*_of(dict, value).values()],
    "merge": _merged,
    "abs": lambda value: stored(max(_number(value), -value)),
    "floor": lambda value: stored(_number(value) // 1 if type(value) is int else int(value // 1)),
    "ceil": lambda value: stored(-int(-_number(value) // 1)),
    "round": lambda value, digits=0: float(round(_number(value), digits)),
    "coalesce": lambda *values: [*(each for each in values if each is not None), None][0],
    "addTime": _moved,
    "timeBetween": _between,
}
