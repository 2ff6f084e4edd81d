"""What the functions of expressions compute, on plain values. They raise TypeError, ValueError or LookupError.

Their names, parameters and result types are in `afl.language.functions`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from afl.runtime.program.operators import contains, in_range, is_int64, is_number, text_of, type_name

MOST_ELEMENTS = 100_000
MOST_CHARACTERS = 8 * 1024 * 1024
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "seconds": timedelta(seconds=1),
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "days": timedelta(days=1),
    "weeks": timedelta(weeks=1),
}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"([+-]?)0*([0-9]+)")
_MOST_DIGITS = 19  # of 64 bits
_FIELD = re.compile(r"\{\{|\}\}|\{(\d*)(?::(\d{0,3}(?:\.\d{1,2})?[df%]?))?\}|[{}]")


def _text(value: Any, what: str = "text") -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a String, got {type_name(value)}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {type_name(value)}")
    return value


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected a map, got {type_name(value)}")
    return value


def _number(value: Any) -> Any:
    if not is_number(value):
        raise TypeError(f"expected a number, got {type_name(value)}")
    return value


def _whole(value: Any, what: str) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise TypeError(f"{what} must be a whole number, got {text_of(value) or 'null'}")
    return value


def _len(value: Any) -> int:
    if not isinstance(value, (str, list, dict)):
        raise TypeError(f"expected a String, list or map, got {type_name(value)}")
    return len(value)


def _split(text: Any, separator: Any) -> list[str]:
    if not _text(separator, "separator"):
        raise ValueError("the separator is empty")
    return _text(text).split(separator)


def _join(values: Any, separator: Any) -> str:
    parts = [text_of(each) for each in _list(values)]
    between = len(_text(separator, "separator")) * (len(parts) - 1)
    if sum(map(len, parts)) + between > MOST_CHARACTERS:
        raise ValueError(f"the result has more than {MOST_CHARACTERS:,} characters")
    return str(separator.join(parts))


def _replace(text: Any, old: Any, new: Any) -> str:
    if not _text(old, "old"):
        raise ValueError("the text to replace is empty")
    count = _text(text).count(old)
    if len(text) + count * (len(_text(new, "new")) - len(old)) > MOST_CHARACTERS:
        raise ValueError(f"the result has more than {MOST_CHARACTERS:,} characters")
    return str(text.replace(old, new))


def _format(template: Any, *values: Any) -> str:
    position = 0

    def field(match: re.Match[str]) -> str:
        nonlocal position
        if match[0] in ("{{", "}}"):
            return match[0][0]
        if match[1] is None:
            raise ValueError(
                f"'{match[0]}' at position {match.start()} is not a field; write '{match[0] * 2}' for itself"
            )
        number = int(match[1]) if match[1] else position
        position += not match[1]
        if number >= len(values):
            raise ValueError(f"there is no value for field {number}; {len(values)} given")
        return _formatted(values[number], match[2])

    return _FIELD.sub(field, _text(template, "template"))


def _formatted(value: Any, spec: str | None) -> str:
    if not spec:
        return text_of(value)
    if spec[-1] in "df%" or "." in spec:
        number = _number(value)
        return format(_whole(number, "a field with 'd'") if spec.endswith("d") else number, spec)
    return f"{text_of(value):{spec}}"


def _parsed_number(text: Any) -> float | int:
    written = _text(text).strip()
    if not _NUMBER.fullmatch(written):
        raise ValueError(f"{written[:40]!r} is not a number")
    whole = _WHOLE.fullmatch(written)
    if whole is None:
        number = float(written)
        if math.isinf(number):
            raise ValueError(f"{written[:40]!r} is too large for a Double")
        return number
    sign, digits = whole.groups()
    if len(digits) > _MOST_DIGITS or not is_int64(int(f"{sign}{digits}")):
        raise ValueError(f"{written[:40]!r} does not fit a 64-bit integer; 1e20 is a Double")
    return int(f"{sign}{digits}")


def _range(start: Any, end: Any = None, step: Any = 1) -> list[int]:
    first, last = (0, start) if end is None else (start, end)
    size = _whole(step, "the step")
    if size == 0:
        raise ValueError("the step is 0")
    numbers = range(_whole(first, "the start"), _whole(last, "the end"), size)
    if len(numbers) > MOST_ELEMENTS:
        raise ValueError(f"a range has at most {MOST_ELEMENTS:,} elements, this one {len(numbers):,}")
    return list(numbers)


def _slice(value: Any, start: Any, end: Any = None) -> Any:
    if not isinstance(value, (str, list)):
        raise TypeError(f"expected a String or a list, got {type_name(value)}")
    return value[_whole(start, "the start") : None if end is None else _whole(end, "the end")]


def _order(values: list[Any]) -> list[Any]:
    if not (all(is_number(each) for each in values) or all(isinstance(each, str) for each in values)):
        kinds = ", ".join(sorted({type_name(each) for each in values}))
        raise TypeError(f"only numbers, or only Strings, have an order; got {kinds}")
    return values


def _sort(values: Any, field: Any = None) -> list[Any]:
    if field is None:
        return sorted(_order(_list(values)))
    name = _text(field, "field")
    missing = next((i for i, each in enumerate(_list(values)) if name not in _map(each)), None)
    if missing is not None:
        raise LookupError(f"element {missing} has no field '{name}'")
    _order([each[name] for each in values])
    return sorted(values, key=lambda each: each[name])


def _distinct(values: Any) -> list[Any]:
    found: dict[tuple[Any, ...], Any] = {}
    for each in _list(values):
        found.setdefault(_identity(each), each)
    return list(found.values())


def _identity(value: Any) -> tuple[Any, ...]:
    """What two values have in common if they are equal, and only then."""
    if isinstance(value, list):
        return (list, *map(_identity, value))
    if isinstance(value, dict):
        return dict, frozenset((key, _identity(each)) for key, each in value.items())
    return bool if isinstance(value, bool) else object, value


def _sum(values: Any) -> Any:
    return in_range(sum(_number(each) for each in _list(values)))


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    def run(values: Any) -> Any:
        if not _list(values):
            raise ValueError("the list is empty")
        return choose(_order(values))

    return run


def _end(position: int) -> Callable[..., Any]:
    def run(values: Any, *default: Any) -> Any:
        if _list(values):
            return values[position]
        if not default:
            raise LookupError("the list is empty, and there is no default")
        return default[0]

    return run


def _merge(*maps: Any) -> dict[str, Any]:
    return {key: value for each in maps for key, value in _map(each).items()}


def _round(number: Any, digits: Any = 0) -> float:
    places = _whole(digits, "the digits")
    if not -15 <= places <= 15:
        raise ValueError("digits are from -15 to 15")
    return float(round(_number(number), places))


def _time(text: Any) -> datetime | date:
    written = _text(text, "time")
    try:
        if len(written) <= 10:
            return date.fromisoformat(written)
        found = datetime.fromisoformat(written)
    except ValueError:
        raise ValueError(
            f"{written[:40]!r} is not an ISO time; write 2026-11-16 or 2026-11-16T10:00:00+01:00"
        ) from None
    if found.tzinfo is None:
        raise ValueError(f"{written[:40]!r} has no zone; append Z or +01:00")
    return found


def _unit(name: Any) -> timedelta:
    if name not in _UNITS:
        raise ValueError(f"unit is {text_of(name)[:20]!r}; known are {', '.join(_UNITS)}")
    return _UNITS[name]


def _add_time(time: Any, amount: Any, unit: Any) -> str:
    moment, span = _time(time), _unit(unit)
    is_date = not isinstance(moment, datetime)
    if is_date and span < _UNITS["days"]:
        raise ValueError(f"a date moves by days or weeks, not by {unit}")
    try:
        moved = moment + span * (_whole(amount, "the amount") if is_date else _number(amount))
    except OverflowError:
        raise ValueError("the time is outside the years 1 to 9999") from None
    text = moved.isoformat()
    return text.replace("+00:00", "Z") if isinstance(time, str) and time.endswith("Z") else text


def _time_between(start: Any, end: Any, unit: Any) -> float:
    first, last = _time(start), _time(end)
    if isinstance(first, datetime) != isinstance(last, datetime):
        raise TypeError("one is a date and the other a time")
    if isinstance(first, datetime) and isinstance(last, datetime):
        return (last.astimezone(UTC) - first.astimezone(UTC)) / _unit(unit)
    return (last - first) / _unit(unit)


def _coalesce(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)


def _flatten(values: Any) -> list[Any]:
    return [item for each in _list(values) for item in _list(each)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": _len,
    "upper": lambda text: _text(text).upper(),
    "lower": lambda text: _text(text).lower(),
    "trim": lambda text: _text(text).strip(),
    "split": _split,
    "join": _join,
    "replace": _replace,
    "contains": contains,
    "format": _format,
    "string": text_of,
    "number": _parsed_number,
    "range": _range,
    "slice": _slice,
    "sort": _sort,
    "reverse": lambda values: _list(values)[::-1],
    "distinct": _distinct,
    "flatten": _flatten,
    "sum": _sum,
    "min": _extreme(min),
    "max": _extreme(max),
    "first": _end(0),
    "last": _end(-1),
    "keys": lambda values: list(_map(values)),
    "values": lambda values: list(_map(values).values()),
    "merge": _merge,
    "abs": lambda number: in_range(abs(_number(number))),
    "floor": lambda number: in_range(math.floor(_number(number))),
    "ceil": lambda number: in_range(math.ceil(_number(number))),
    "round": _round,
    "coalesce": _coalesce,
    "addTime": _add_time,
    "timeBetween": _time_between,
}
