"""An event facet as a tool of a model: its return clause is what the model has to fill in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.models.messages import Tool
from afl.runtime.program.declaration import Declaration, Field
from afl.runtime.program.values import TypeSpec, type_text

Schema = dict[str, Any]

_PLAIN: dict[str, Schema] = {
    "String": {"type": "string"},
    "Long": {"type": "integer"},
    "Int": {"type": "integer"},
    "Double": {"type": "number"},
    "Boolean": {"type": "boolean"},
    "List": {"type": "array"},
    "Map": {"type": "object"},
    "Any": {},
    "Json": {},
}
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


@dataclass
class ToolDefinition:
    """The tool by which a model gives the result of an event facet."""

    name: str
    description: str
    input_schema: dict[str, Any]
    param_names: list[str]
    return_names: list[str]

    @classmethod
    def of(cls, facet: Declaration) -> ToolDefinition:
        """The tool of a facet: named as the facet without its namespace, in the letters that the API takes."""
        returns = facet.returns or ()
        return cls(
            name=tool_name(facet.name),
            description=_description(facet),
            input_schema=returns_schema(facet),
            param_names=[each.name for each in facet.params],
            return_names=[each.name for each in returns],
        )

    @property
    def tool(self) -> Tool:
        """As a model is given it."""
        return Tool(self.name, self.description, self.input_schema)


def tool_name(facet: str) -> str:
    """The name of a facet's tool."""
    return _UNFIT.sub("_", facet.rpartition(".")[2])[:_LONGEST]


def returns_schema(facet: Declaration) -> Schema:
    """The JSON schema of what a facet returns. Returns with a default may be left out."""
    return _described(facet, facet.returns or (), "returns")


def params_schema(called: Declaration) -> Schema:
    """The JSON schema of what a workflow or facet takes. Parameters with a default may be left out."""
    return {**_described(called, called.params, "params"), "additionalProperties": False}


def _described(declared: Declaration, fields: tuple[Field, ...], part: str) -> Schema:
    about = {each["name"]: each["description"] for each in (declared.ast.get("doc") or {}).get(part) or []}
    schemas = declared.program.schemas
    whole = _object(fields, schemas)
    for name, text in about.items():
        if name in whole["properties"] and text:
            whole["properties"][name] = {**whole["properties"][name], "description": text}
    used = _used([each.type for each in fields], schemas)
    if used:
        whole["$defs"] = {_key(name): _fields(schemas[name], schemas) for name in used}
    return whole


def _object(returns: tuple[Field, ...], schemas: Mapping[str, Mapping[str, TypeSpec]]) -> Schema:
    return {
        "type": "object",
        "properties": {each.name: _schema(each.type, schemas) for each in returns},
        "required": [each.name for each in returns if each.default is None],
    }


def _fields(fields: Mapping[str, TypeSpec], schemas: Mapping[str, Mapping[str, TypeSpec]]) -> Schema:
    properties = {name: _schema(kind, schemas) for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields)}


def _schema(kind: TypeSpec, schemas: Mapping[str, Mapping[str, TypeSpec]]) -> Schema:
    if not isinstance(kind, str):
        return {"type": "array", "items": _schema(kind.get("elementType", "Any"), schemas)}
    if kind in schemas:
        return {"$ref": f"#/$defs/{_key(kind)}"}
    return dict(_PLAIN.get(kind, {"type": "string"}))


def _used(kinds: list[TypeSpec], schemas: Mapping[str, Mapping[str, TypeSpec]]) -> list[str]:
    """The AFL schemas that types lead to, each once; they may lead to themselves."""
    found: dict[str, None] = {}
    pending = list(kinds)
    while pending:
        kind = pending.pop(0)
        if not isinstance(kind, str):
            pending.append(kind.get("elementType", "Any"))
        elif kind in schemas and kind not in found:
            found[kind] = None
            pending.extend(schemas[kind].values())
    return list(found)


def _key(schema: str) -> str:
    """The name of an AFL schema, as part of a reference."""
    return _UNFIT.sub("_", schema)


def _description(facet: Declaration) -> str:
    said = (facet.ast.get("doc") or {}).get("description") or ""
    given = ", ".join(f"{each.name}: {type_text(each.type)}" for each in facet.params)
    parameters = f" Parameters: {given}." if given else ""
    task = f"Process {facet.name.rpartition('.')[2]}.{parameters} Return the result values."
    return f"{said}\n\n{task}" if said else task
