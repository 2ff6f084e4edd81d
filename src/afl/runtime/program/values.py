"""Whether a value fits a declared type: inputs of a run, results of an agent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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


Part = tuple[Any, TypeSpec, str]
"""A value, the type that it shall fit, and its place."""


def misfit(value: Any, kind: TypeSpec, schemas: Mapping[str, Mapping[str, Any]], where: str) -> str | None:
    """Why the value does not fit the type, naming the place; None if it fits. Null fits every type."""
    # No recursion: a schema may hold itself, and a value nest deeper than Python's calls.
    pending: list[Iterator[Part]] = [iter([(value, kind, where)])]
    while pending:
        for inner, part, place in pending[-1]:
            if inner is None:
                continue
            problem = _own_misfit(inner, part, place, schemas)
            if problem:
                return problem
            if not isinstance(part, str) or (part not in _PLAIN and part in schemas):
                pending.append(_parts(inner, part, place, schemas))
                break
        else:
            pending.pop()
    return None


def _own_misfit(
    value: Any, kind: TypeSpec, where: str, schemas: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Why the value does not fit, its elements or fields aside."""
    if not isinstance(kind, str):
        return (
            None if isinstance(value, list) else f"{where}: expected {type_text(kind)}, got {_shown(value)}"
        )
    plain = _PLAIN.get(kind)
    if plain is None:
        return _schema_misfit(value, kind, where, schemas[kind]) if kind in schemas else None
    if type(value) is int and int in plain and not is_int64(value):
        return f"{where}: expected {kind}, got an integer of more than 64 bits"
    if type(value) in plain:
        return None
    hint = _TEXT_NUMBER if kind in _NUMBERS and isinstance(value, str) and _is_number(value) else ""
    return f"{where}: expected {kind}, got {_shown(value)}{hint}"


def _schema_misfit(value: Any, kind: str, where: str, fields: Iterable[str]) -> str | None:
    if not isinstance(value, dict):
        return f"{where}: expected {kind}, got {_shown(value)}"
    missing = next((name for name in fields if name not in value), None)
    return None if missing is None else f"{where}: field '{missing}' of {kind} is missing"


def _parts(
    value: Any, kind: TypeSpec, where: str, schemas: Mapping[str, Mapping[str, Any]]
) -> Iterator[Part]:
    """The elements of a list, or the fields of a schema, each with its type and place."""
    if isinstance(kind, str):
        return ((value[name], part, f"{where}.{name}") for name, part in schemas[kind].items())
    element = kind.get("elementType", "Any")
    return ((item, element, f"{where}[{i}]") for i, item in enumerate(value))


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
