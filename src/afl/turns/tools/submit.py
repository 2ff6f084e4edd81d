"""`submit_result`: the tool by which a model ends its turn. The worker's own; no row of `resource.tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.models import Tool

SUBMIT_RESULT = "submit_result"


@dataclass(frozen=True, slots=True)
class Field:
    """A field the deliverable must have."""

    name: str
    description: str = ""


def submit_tool(required: Sequence[Field]) -> Tool:
    """The tool as the model sees it, with the fields that are asked for."""
    asked = "; ".join(
        f"{each.name}: {each.description}" if each.description else each.name for each in required
    )
    about = "Deliver the result and end your work. Call it once, alone."
    one = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
        "required": ["name", "value"],
    }
    result = {
        "type": "object",
        "properties": {"fields": {"type": "array", "items": one}},
        "required": ["fields"],
    }
    return Tool(
        SUBMIT_RESULT,
        f"{about} Required fields: {asked}." if asked else about,
        {"type": "object", "properties": {"result": result}, "required": ["result"]},
    )


def required_fields(content: Any) -> list[Field]:
    """The fields of a `task.result_fields` card; InputError if they cannot be read."""
    fields = content.get("fields") if isinstance(content, Mapping) else None
    if not isinstance(fields, list):
        raise InputError("task.result_fields: expected a list `fields` of objects with a name")
    found = []
    for each in fields:
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InputError(f"task.result_fields: {each!r} has no name")
        found.append(Field(name, str(each.get("description") or "")))
    return found


def accepted_fields(arguments: Mapping[str, Any], required: Sequence[Field]) -> list[dict[str, str]]:
    """The fields of the deliverable: those asked for first, then the others. InputError says what is wrong."""
    if "result" not in arguments:
        raise InputError("submit_result needs the argument `result`: {fields: [{name, value}]}")
    given = _given(arguments["result"])
    missing = [each.name for each in required if each.name not in given]
    if missing:
        raise InputError(f"the result lacks the required field {', '.join(missing)}")
    order = [each.name for each in required] + [
        name for name in given if name not in {f.name for f in required}
    ]
    return [{"name": name, "value": given[name]} for name in order]


def _given(result: Any) -> dict[str, str]:
    """The fields by name: from a list, `{fields: list}`, or the shorthand `{name: value}`."""
    if isinstance(result, Mapping) and "fields" in result:
        result = result["fields"]
    if isinstance(result, Mapping):
        return {str(name): _text(value) for name, value in result.items()}
    if not isinstance(result, list):
        return {"result": _text(result)}
    found: dict[str, str] = {}
    for each in result:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str) or "value" not in each:
            raise InputError(f"{each!r} is not a field; expected an object with name and value")
        if each["name"] in found:
            raise InputError(f"the field {each['name']} is given twice")
        found[each["name"]] = _text(each["value"])
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else codec.encode(value, what="a field of the result")
