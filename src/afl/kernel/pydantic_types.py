"""Which types are pydantic's to read: those with a model or a constraint of it in them."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

_PYDANTIC = ("pydantic", "pydantic_core", "annotated_types")  # packages
_OF_PYDANTIC = (
    "__get_pydantic_core_schema__",
    "__pydantic_core_schema__",
)  # a class that it reads has one of these


def needs_pydantic(kind: Any) -> bool:
    """Whether there is anything in a type that only pydantic reads, or reads better."""
    return _needs_pydantic(kind, set())


def is_of_pydantic(kind: Any) -> bool:
    """Whether a class is one of pydantic's own, a model, or a dataclass of it."""
    package = str(getattr(kind, "__module__", "")).partition(".")[0]
    return package in _PYDANTIC or any(hasattr(kind, name) for name in _OF_PYDANTIC)


def _needs_pydantic(kind: Any, seen: set[Any]) -> bool:
    if typing.get_origin(kind) is typing.Annotated:
        if any(is_of_pydantic(type(each)) for each in kind.__metadata__):
            return True
    elif isinstance(kind, type) and typing.get_origin(kind) is None:
        if is_of_pydantic(kind) or kind in seen or not dataclasses.is_dataclass(kind):
            return is_of_pydantic(kind)
        seen.add(kind)
        try:
            return any(
                _needs_pydantic(each, seen)
                for each in typing.get_type_hints(kind, include_extras=True).values()
            )
        except NameError:  # whoever reads it says what is wrong
            return False
    return any(_needs_pydantic(each, seen) for each in typing.get_args(kind))
