"""Typed forms: fields made from a workflow's parameters or a return clause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from afl.operations.people.form_fields import FieldKind, Form, FormError, FormField, value_text
from afl.operations.people.form_values import complete, parse, written
from afl.runtime.program.declaration import Declaration, Field, constant_context
from afl.runtime.program.program import Program
from afl.runtime.program.values import TypeSpec, type_text

__all__ = [
    "FieldKind",
    "Form",
    "FormError",
    "FormField",
    "answer_form",
    "call_form",
    "complete",
    "parse",
    "start_form",
    "value_text",
    "written",
]

_DEEPEST = 3  # schemas within schemas; what is deeper is written as JSON
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")


def start_form(program: Program, given: Mapping[str, Any] | None = None) -> Form:
    """The form that starts a workflow: its parameters, with the values that are given."""
    return call_form(program, program.workflow, given)


def call_form(program: Program, called: Declaration, given: Mapping[str, Any] | None = None) -> Form:
    """The form of what a step calls: its parameters, with the values that are given."""
    return _Maker(program).form(called, called.params, "params", given)


def answer_form(program: Program, facet: str, given: Mapping[str, Any] | None = None) -> Form:
    """The form that answers a facet: its returns. A parameter of the same name is what stands there to be edited."""
    called = program.declaration(facet)
    if called is None:
        return Form(facet, "")
    return _Maker(program).form(called, called.returns or (), "returns", given or {})


class _Maker:
    """Makes fields out of declarations."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def form(
        self,
        declared: Declaration,
        fields: Iterable[Field],
        part: str,
        given: Mapping[str, Any] | None = None,
    ) -> Form:
        docs, known = _docs(declared, part), given or {}
        made = (
            self._field(each, each.name, docs, _default(each, known), each.default is None) for each in fields
        )
        return Form(declared.name, _description(declared), tuple(made))

    def _field(
        self, field: Field, name: str, docs: Mapping[str, str], default: Any, required: bool, depth: int = 0
    ) -> FormField:
        kind = _kind(field.type)
        inner: tuple[FormField, ...] = ()
        if kind is FieldKind.JSON and isinstance(field.type, str) and depth < _DEEPEST:
            schema = self._program.declarations.get(field.type)
            if schema is not None and schema.is_schema and required:
                kind, inner = FieldKind.SCHEMA, self._inner(schema, name, default, depth + 1)
        text = type_text(field.type)
        return FormField(
            name, _label(field.name), kind, text, required, default, docs.get(field.name, ""), inner
        )

    def _inner(self, schema: Declaration, name: str, default: Any, depth: int) -> tuple[FormField, ...]:
        docs = _docs(schema, "params")
        values = default if isinstance(default, dict) else {}
        return tuple(
            self._field(each, f"{name}.{each.name}", docs, values.get(each.name), True, depth)
            for each in schema.params
        )


def _kind(kind: TypeSpec) -> FieldKind:
    if not isinstance(kind, str):
        return FieldKind.LIST if kind.get("elementType") == "String" else FieldKind.JSON
    return _KINDS.get(kind, FieldKind.JSON)


_KINDS = {
    "String": FieldKind.TEXT,
    "Long": FieldKind.INTEGER,
    "Int": FieldKind.INTEGER,
    "Double": FieldKind.NUMBER,
    "Boolean": FieldKind.BOOLEAN,
    "Map": FieldKind.MAP,
}


def _default(field: Field, given: Mapping[str, Any]) -> Any:
    if field.name in given:
        return given[field.name]
    return None if field.default is None else field.default(constant_context(given))


def _docs(declared: Declaration, part: str) -> dict[str, str]:
    doc = declared.ast.get("doc")
    entries = doc.get(part) or [] if isinstance(doc, Mapping) else []
    return {each["name"]: str(each.get("description", "")) for each in entries}


def _description(declared: Declaration) -> str:
    doc = declared.ast.get("doc")
    if isinstance(doc, Mapping):
        return str(doc.get("description", ""))
    return str(doc or "")


def _label(name: str) -> str:
    """`due_date` and `dueDate` are both "Due date"."""
    words = " ".join(word if word.isupper() else word.lower() for word in _WORDS.split(name) if word)
    return words[:1].upper() + words[1:]
