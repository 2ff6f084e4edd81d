"""Parameters of handlers in the types that they are annotated with, where those are none of JSON's own.

    @handler("shop.Ship")
    def ship(item: Item, day: date) -> dict[str, str]: ...

A dataclass, a pydantic model, a date, an enumeration and the like are made of what the facet gives, also in lists and
maps of them; so are bytes, sets, tuples, and maps with numbers as keys. What has an annotation that says less is passed
on as it is.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from afl.kernel.errors import InputError

_NOT_IN_JSON = (
    *(date, time, timedelta, UUID, Decimal, Enum, PurePath, bytes, bytearray),  # texts or numbers there
    *(tuple, set, frozenset),  # lists there
)


def typed_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function whose values are to be converted, each with its type."""
    while isinstance(function, partial):
        function = function.func
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(target)
    except Exception:  # a name that is only known to type checkers
        return {}
    return {
        name: kind
        for name, kind in hints.items()
        if name not in ("return", "context") and _is_typed(kind) and _can_be_made(kind)
    }


def converted(given: Mapping[str, Any], types: Mapping[str, Any], facet: str) -> dict[str, Any]:
    """The arguments of a call; InputError names the one that does not fit its type."""
    values = dict(given)
    for name, kind in types.items():
        if values.get(name) is None:  # null fits every type
            continue
        try:
            values[name] = msgspec.convert(values[name], kind, dec_hook=_made, str_keys=True)
        except (ValueError, TypeError) as error:
            shown = kind.__name__ if isinstance(kind, type) else str(kind)
            raise InputError(
                f"the handler of {facet} takes {name!r} as {shown}; {values[name]!r:.80} does not fit: {error}"
            ) from error
    return values


def _is_typed(kind: Any) -> bool:
    made = typing.get_origin(kind) or kind
    if isinstance(made, type) and (
        issubclass(made, _NOT_IN_JSON) or dataclasses.is_dataclass(made) or hasattr(made, "model_validate")
    ):
        return True
    return _has_number_keys(kind) or any(_is_typed(each) for each in typing.get_args(kind))


def _has_number_keys(kind: Any) -> bool:
    """Whether it is a map whose keys JSON has as texts."""
    origin = typing.get_origin(kind)
    return (
        isinstance(origin, type) and issubclass(origin, Mapping) and typing.get_args(kind)[0] in (int, float)
    )


def _can_be_made(kind: Any) -> bool:
    """Whether the type is one that can be told from data; a union of two dataclasses cannot."""
    try:
        msgspec.convert(None, kind | None, dec_hook=_made)
    except Exception:
        return False
    return True


def _made(kind: Any, value: Any) -> Any:
    """What msgspec does not know."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value, **_both_names(kind))
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(value)
    raise TypeError(f"a value of {kind} cannot be made of data; annotate the parameter with another type")


@cache
def _both_names(model: Any) -> dict[str, bool]:
    """Options for a model whose fields may have aliases: what is stored of one has the names of its fields."""
    parameters = inspect.signature(
        model.model_validate
    ).parameters  # before pydantic 2.11 there is no such option
    return {"by_alias": True, "by_name": True} if "by_name" in parameters else {}
