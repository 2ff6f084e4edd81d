"""The parameters of a tool: their JSON schemas, and their values from what a model gives.

msgspec reads their types, save those with a model or a constraint of pydantic in them: pydantic reads these itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from afl.kernel.error_text import text_of
from afl.kernel.errors import InputError
from afl.kernel.pydantic_types import is_of_pydantic, needs_pydantic
from afl.models.pydantic_reader import PydanticReader


class Parameter:
    """One parameter; InputError if JSON data cannot become its type."""

    def __init__(self, name: str, kind: Any, tool: str) -> None:
        self.name = name
        self._kind = kind
        self._tool = tool
        about = f"parameter {name!r} of tool {tool}"
        self._pydantic = PydanticReader(kind, about) if needs_pydantic(kind) else None

    def schema(self, suffix: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
        """Its schema, and what that refers to, with `suffix` behind the names."""
        if self._pydantic is not None:
            schema = self._pydantic.schema(suffix)
            return schema, schema.pop("$defs", {})
        lifted: dict[str, Any] = {}

        def of_model(kind: type) -> dict[str, Any]:
            if not is_of_pydantic(kind):
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


def _from_data(kind: Any, value: Any) -> Any:
    """What msgspec cannot build itself: a pydantic model, the only other kind there is a schema for."""
    return kind.model_validate(value)
