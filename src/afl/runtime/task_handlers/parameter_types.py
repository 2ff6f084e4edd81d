"""Parameters of handlers in the types that they are annotated with, where those are none of JSON's own.

    @handler("shop.Ship")
    def ship(item: Item, day: date) -> dict[str, str]: ...

A dataclass, a pydantic model, a date, an enumeration and the like are made of what the facet gives, also in lists and
maps of them; so are bytes, sets, tuples, and maps with numbers as keys. What has an annotation that says less is passed
on as it is. What has a model or a `Field` of pydantic's in it is made by pydantic, which tells the models of a union
apart; the rest by msgspec, whose `Meta` is checked as well.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from afl.kernel.errors import InputError
from afl.kernel.pydantic_types import needs_pydantic

_NOT_IN_JSON = (
    *(date, time, timedelta, UUID, Decimal, Enum, PurePath, bytes, bytearray),  # texts or numbers there
    *(tuple, set, frozenset),  # lists there
)


@dataclasses.dataclass(frozen=True)
class ParameterType:
    """The type that a parameter is annotated with, and how its values are made of data."""

    kind: Any
    convert: Callable[[Any], Any]


def typed_parameters(function: Callable[..., Any]) -> dict[str, ParameterType]:
    """The parameters of a function whose values are to be converted, each with its type."""
    while isinstance(function, partial):
        function = function.func
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except Exception:  # a name that is only known to type checkers
        return {}
    converters = {name: _converter(kind) for name, kind in hints.items() if name not in ("return", "context")}
    return {
        name: ParameterType(hints[name], convert)
        for name, convert in converters.items()
        if convert is not None
    }


def converted(given: Mapping[str, Any], types: Mapping[str, ParameterType], facet: str) -> dict[str, Any]:
    """The arguments of a call; InputError names the one that does not fit its type."""
    values = dict(given)
    for name, expected in types.items():
        if values.get(name) is None:  # null fits every type
            continue
        try:
            values[name] = expected.convert(values[name])
        except (ValueError, TypeError) as error:
            raise InputError(
                f"the handler of {facet} takes {name!r} as {_shown(expected.kind)}; {values[name]!r:.80} "
                f"does not fit: {error}"
            ) from error
    return values


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    """What makes such a value of data; None if there is nothing to make, or the type cannot be told from data."""
    with suppress(Exception):  # such as a union of two dataclasses
        if needs_pydantic(kind):
            from pydantic import TypeAdapter  # noqa: PLC0415  whoever has such a type has imported it

            return partial(TypeAdapter(kind).validate_python, **_both_names())
        if any(map(_is_typed, _parts(kind, set()))):
            msgspec.convert(None, kind | None, dec_hook=_made)
            return partial(msgspec.convert, type=kind, dec_hook=_made, str_keys=True)
    return None


def _parts(kind: Any, known: set[Any]) -> Iterator[Any]:
    """A type, its arguments, what it is annotated with, and the types of the keys of a TypedDict."""
    yield kind
    within: Iterable[Any] = typing.get_args(kind)
    if typing.is_typeddict(kind) and kind not in known:  # it may have itself as a key
        known.add(kind)
        within = typing.get_type_hints(kind, include_extras=True).values()
    for each in within:
        yield from _parts(each, known)


def _shown(kind: Any) -> str:
    if hasattr(kind, "__metadata__"):  # of an Annotated, what it says about the type is long
        kind = kind.__origin__
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _is_typed(kind: Any) -> bool:
    made = typing.get_origin(kind) or kind
    return (
        isinstance(kind, msgspec.Meta)
        or _has_number_keys(kind)
        or hasattr(made, "model_validate")
        or (isinstance(made, type) and (issubclass(made, _NOT_IN_JSON) or dataclasses.is_dataclass(made)))
    )


def _has_number_keys(kind: Any) -> bool:
    """Whether it is a map whose keys JSON has as texts."""
    origin = typing.get_origin(kind)
    return (
        isinstance(origin, type) and issubclass(origin, Mapping) and typing.get_args(kind)[0] in (int, float)
    )


def _made(kind: Any, value: Any) -> Any:
    """What msgspec does not know."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value, **_both_names())
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(value)
    raise TypeError(f"a value of {kind} cannot be made of data; annotate the parameter with another type")


@cache
def _both_names() -> dict[str, Any]:
    """Options for models whose fields may have aliases: what is stored of one has the names of its fields."""
    from pydantic import TypeAdapter  # noqa: PLC0415  as above

    parameters = inspect.signature(TypeAdapter.validate_python).parameters
    return {"by_alias": True, "by_name": True} if "by_name" in parameters else {}  # since pydantic 2.11
