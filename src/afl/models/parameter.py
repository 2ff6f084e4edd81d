"""The parameters of a tool: their JSON schemas, and their values from what a model gives.

msgspec reads their types, save those with a model or a constraint of pydantic in them: pydantic reads these itself.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

from afl.kernel.error_text import text_of
from afl.kernel.errors import InputError
from afl.models.pydantic_reader import PydanticReader

_PYDANTIC = ("pydantic", "pydantic_core", "annotated_types")  # packages
_OF_PYDANTIC = (
    "__get_pydantic_core_schema__",
    "__pydantic_core_schema__",
)  # a class that it reads has one of these


class Parameter:
    """One parameter; InputError if JSON data cannot become its type."""

    def __init__(self, name: str, kind: Any, tool: str) -> None:
        self.name = name
        self._kind = kind
        self._tool = tool
        about = f"parameter {name!r} of tool {tool}"
        self._pydantic = PydanticReader(kind, about) if _needs_pydantic(kind, set()) else None

    def schema(self, suffix: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
        """Its schema, and what that refers to, with `suffix` behind the names."""
        if self._pydantic is not None:
            schema = self._pydantic.schema(suffix)
            return schema, schema.pop("$defs", {})
        lifted: dict[str, Any] = {}

        def of_model(kind: type) -> dict[str, Any]:
            if not _is_pydantics(kind):
                raise NotImplementedError
            found = PydanticReader(kind, f"{self.name!r} of tool {self._tool}").schema(suffix)
            lifted.update(found.pop("$defs", {}))  # references count from the root of the tool's schema
            return found

        try:
            (schema,), components = msgspec.json.schema_components(
                [self._kind], schema_hook=of_model, ref_template=f"#/$defs/{{name}}{suffix}"
            )
        except TypeError as error:
            raise InputError(
                f"tool {self._tool}: parameter {self.name!r} is not JSON data: {error}"
            ) from error
        return dict(schema), {f"{name}{suffix}": each for name, each in components.items()} | lifted

    def value(self, given: Any) -> Any:
        """Its value; InputError says what does not fit."""
        about = f"parameter {self.name!r} of {self._tool}"
        try:
            if self._pydantic is not None:
                return self._pydantic.parse(given)
            return msgspec.convert(given, self._kind, dec_hook=_from_data, str_keys=True)
        except (msgspec.ValidationError, InputError) as error:
            raise InputError(f"{about}: {error}") from error
        except Exception as error:  # a validator or __post_init__ may raise anything
            raise InputError(f"{about}: {type(error).__name__}: {text_of(error)}") from error


def schemas_of(parameters: Iterable[Parameter]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schema of each, and what they refer to: two types of one name have two there."""
    found: dict[str, dict[str, Any]] = {}
    shared: dict[str, Any] = {}
    for each in parameters:
        schema, components = each.schema()
        if any(shared.get(name, about) != about for name, about in components.items()):
            schema, components = each.schema(f"_{each.name}")
        found[each.name] = schema
        shared.update(components)
    return found, shared


def _is_pydantics(kind: Any) -> bool:
    """Whether a class is one of pydantic's own, a model, or a dataclass of it."""
    package = str(getattr(kind, "__module__", "")).partition(".")[0]
    return package in _PYDANTIC or any(hasattr(kind, name) for name in _OF_PYDANTIC)


def _needs_pydantic(kind: Any, seen: set[Any]) -> bool:
    """Whether there is anything in a type that only pydantic reads, or reads better."""
    if typing.get_origin(kind) is typing.Annotated:
        if any(_is_pydantics(type(each)) for each in kind.__metadata__):
            return True
    elif isinstance(kind, type) and typing.get_origin(kind) is None:
        if _is_pydantics(kind) or kind in seen or not dataclasses.is_dataclass(kind):
            return _is_pydantics(kind)
        seen.add(kind)
        try:
            return any(
                _needs_pydantic(each, seen)
                for each in typing.get_type_hints(kind, include_extras=True).values()
            )
        except NameError:  # msgspec says what is wrong
            return False
    return any(_needs_pydantic(each, seen) for each in typing.get_args(kind))


def _from_data(kind: Any, value: Any) -> Any:
    """What msgspec cannot build itself: a pydantic model, the only other kind there is a schema for."""
    return kind.model_validate(value)
