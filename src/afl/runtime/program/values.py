"""Whether a value fits a declared type: inputs of a run, results of an agent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from afl.kernel.near_names import near_name
from afl.runtime.program.operators import is_int64, type_name

TypeSpec = str | Mapping[str, Any]

_PLAIN: dict[str, tuple[type, ...]] = {
    "String": (str,),
    "Long": (int,),
    "Int": (int,),
    "Double": (int, float),
    "Boolean": (bool,),
    "Map": (dict,),
    "List": (list,),
}


_NUMBERS = ("Int", "Long", "Double")
_TEXT_NUMBER = "; it is a text, as a Decimal or a number in quotes is"


def type_text(kind: TypeSpec) -> str:
    """A declared type as it is written."""
    if isinstance(kind, str):
        return kind
    return f"[{type_text(kind.get('elementType', 'Any'))}]"


def misfit(value: Any, kind: TypeSpec, schemas: Mapping[str, Mapping[str, Any]], where: str) -> str | None:
    """Why the value does not fit the type, naming the place; None if it fits. Null fits every type."""
    if value is None:
        return None
    if not isinstance(kind, str):
        return _array_misfit(value, kind, schemas, where)
    plain = _PLAIN.get(kind)
    if plain is not None:
        if type(value) is int and int in plain and not is_int64(value):
            return f"{where}: expected {kind}, got an integer of more than 64 bits"
        if type(value) in plain:
            return None
        hint = _TEXT_NUMBER if kind in _NUMBERS and isinstance(value, str) and _is_number(value) else ""
        return f"{where}: expected {kind}, got {_shown(value)}{hint}"
    fields = schemas.get(kind)
    return _schema_misfit(value, kind, fields, schemas, where) if fields is not None else None


def _array_misfit(
    value: Any, kind: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any]], where: str
) -> str | None:
    if not isinstance(value, list):
        return f"{where}: expected {type_text(kind)}, got {_shown(value)}"
    element = kind.get("elementType", "Any")
    problems = (misfit(item, element, schemas, f"{where}[{i}]") for i, item in enumerate(value))
    return next((problem for problem in problems if problem), None)


def _schema_misfit(
    value: Any,
    kind: str,
    fields: Mapping[str, Any],
    schemas: Mapping[str, Mapping[str, Any]],
    where: str,
) -> str | None:
    if not isinstance(value, dict):
        return f"{where}: expected {kind}, got {_shown(value)}"
    for name, field_kind in fields.items():
        if name not in value:
            return f"{where}: field '{name}' of {kind} is missing"
        problem = misfit(value[name], field_kind, schemas, f"{where}.{name}")
        if problem:
            return problem
    return None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type_name(value)} {text if len(text) <= 40 else text[:37] + '...'}"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Text for a name that is not among the known ones, with the nearest one as a suggestion."""
    names = sorted(known)
    near = near_name(name, names)
    if near:
        return f"unknown {kind} '{name}'; did you mean '{near}'?"
    return f"unknown {kind} '{name}'; known: {', '.join(names) if names else 'none'}"
