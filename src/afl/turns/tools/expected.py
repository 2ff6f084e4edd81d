"""The result that a turn must come to: named fields of text, or data of a type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.models import Tool
from afl.models.messages import unreadable
from afl.models.result_type import ResultType
from afl.turns.cardbox.deliverable import fields_content, typed_content
from afl.turns.tools.submit import SUBMIT_RESULT, Field, accepted_fields, required_fields, submit_tool

_ABOUT = "Deliver the result and end your work. Call it once, alone."


@dataclass(frozen=True)
class Expected:
    """What submit_result must be given. Without fields and type it may be given anything."""

    fields: Sequence[Field] = ()
    type: ResultType[Any] | None = None

    @property
    def is_required(self) -> bool:
        """Whether words alone are no result."""
        return bool(self.fields) or self.type is not None

    @property
    def asked(self) -> str:
        """What is asked for, as the model and people are told it."""
        if self.type is not None:
            return f"a result that fits its schema ({self.type.name})"
        return f"the fields {', '.join(each.name for each in self.fields)}"

    @property
    def tool(self) -> Tool:
        """submit_result as the model sees it."""
        if self.type is None:
            return submit_tool(self.fields)
        schema = dict(self.type.schema)
        whole = {"type": "object", "required": ["result"], "additionalProperties": False}
        shared = schema.pop("$defs", None)
        whole |= {"properties": {"result": schema}}
        return Tool(SUBMIT_RESULT, _ABOUT, whole | {"$defs": shared} if shared else whole)

    def accept(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The content of the deliverable; InputError says what is wrong with the result."""
        problem = unreadable(arguments, SUBMIT_RESULT)
        if problem is not None:
            raise InputError(problem)
        if self.type is None:
            return fields_content(accepted_fields(arguments, self.fields))
        if "result" not in arguments:
            raise InputError("submit_result needs the argument `result`")
        return typed_content(self.type.data(_from_fields(arguments["result"], self.type.schema)))


def result_card_content(
    fields: Mapping[str, str] | None, type: ResultType[Any] | None
) -> list[dict[str, str]]:
    """The fields of a `task.result_fields` card: those given, else those at the top of the type's schema."""
    given = fields
    if given is None and type is not None:
        properties = type.schema.get("properties", {})
        given = {name: str(about.get("description", "")) for name, about in properties.items()}
    return [{"name": name, "description": about} for name, about in (given or {}).items()]


def stored_type(type: ResultType[Any]) -> dict[str, Any]:
    """A type as a profile or a card has it."""
    return {"name": type.name, "schema": dict(type.schema)}


def read_type(data: Any, known: Mapping[str, ResultType[Any]]) -> ResultType[Any] | None:
    """The type in a profile or a card: that of this process where it has it, else by its schema alone."""
    if data is None:
        return None
    if not isinstance(data, Mapping) or not isinstance(data.get("schema"), Mapping):
        raise InputError(f"the type of a result is {data!r}; expected a name and a schema")
    found: ResultType[Any] = ResultType(str(data.get("name") or "result"), data["schema"])
    kept: ResultType[Any] = known.get(found.key, found)
    return kept


def expected_by_card(content: Any, known: Mapping[str, ResultType[Any]]) -> Expected:
    """What a `task.result_fields` card asks for; InputError if it cannot be read."""
    type = read_type(content.get("type") if isinstance(content, Mapping) else None, known)
    return Expected(required_fields(content), type)


def _from_fields(result: Any, schema: Mapping[str, Any]) -> Any:
    """A result as its type may have it: models also give objects as a list of fields, and numbers as text."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return result
    if isinstance(result, Mapping) and set(result) == {"fields"} and "fields" not in properties:
        result = result["fields"]
    if isinstance(result, list) and all(isinstance(each, Mapping) and "name" in each for each in result):
        result = {each["name"]: each.get("value") for each in result}
    if not isinstance(result, Mapping):
        return result
    return {name: _read(value, properties.get(name, {})) for name, value in result.items()}


def _read(value: Any, schema: Mapping[str, Any]) -> Any:
    """Text as the JSON that it may be, where the schema wants anything but text."""
    if not isinstance(value, str) or ("$ref" not in schema and schema.get("type", "string") == "string"):
        return value
    return codec.value_of(value)
