"""Typed forms: fields made from a workflow's parameters or a return clause, and their values from what was written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.runtime.program.declaration import Declaration, Field, constant_context
from afl.runtime.program.program import Program
from afl.runtime.program.values import TypeSpec, type_text


class FieldKind(StrEnum):
    """How a field is asked for."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"  # of texts: one on each line, or JSON
    MAP = "map"  # JSON
    SCHEMA = "schema"  # by its own fields
    JSON = "json"  # any other value


@dataclass(frozen=True)
class FormField:
    """One field. `type` is as the workflow writes it; `default` is what stands in the field before it is filled in.

    A field that is not `required` may stay empty: then its default counts, or null. A schema has `fields`.
    """

    name: str
    label: str
    kind: FieldKind
    type: str
    required: bool
    default: Any = None
    help: str = ""
    fields: tuple[FormField, ...] = ()

    @property
    def text(self) -> str:
        """The default as the field shows it."""
        return value_text(self.default, self.kind)


@dataclass(frozen=True)
class Form:
    """What is asked, and for what: `name` is the facet or the workflow, `description` its own words."""

    name: str
    description: str
    fields: tuple[FormField, ...] = ()

    @property
    def every_field(self) -> tuple[FormField, ...]:
        """All that is filled in: instead of a schema its fields."""
        return tuple(_leaves(self.fields))


def _leaves(fields: Iterable[FormField]) -> Iterable[FormField]:
    for field in fields:
        if field.kind is FieldKind.SCHEMA:
            yield from _leaves(field.fields)
        else:
            yield field


def value_text(value: Any, kind: FieldKind) -> str:
    """A value as a field shows it, which `parse` reads back."""
    if value is None:
        return ""
    if kind is FieldKind.TEXT and isinstance(value, str):
        return value
    if kind is FieldKind.LIST and isinstance(value, list) and all(_is_line(each) for each in value):
        return "\n".join(value)
    return codec.encode(value)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.strip() == value != "" and "\n" not in value and value[0] != "["


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


__all__ = [
    "FieldKind",
    "Form",
    "FormError",
    "FormField",
    "answer_form",
    "call_form",
    "parse",
    "start_form",
    "value_text",
]

_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class FormError(InputError, hint="Correct the fields that are named; nothing was stored."):
    """Answers that do not fit their form; `problems` says what is wrong with each field, by its name."""

    def __init__(self, message: str, problems: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.problems = dict(problems or {})

    @classmethod
    def of(cls, form: str, problems: Mapping[str, str]) -> FormError:
        """The error of these problems."""
        return cls(f"{form}: " + "; ".join(f"{name}: {text}" for name, text in problems.items()), problems)


def parse(form: Form, submitted: Mapping[str, str]) -> dict[str, Any]:
    """The values that the texts mean; FormError says what is wrong with each field.

    A field that is not there has what stood in it; one that was cleared has its default, if it is optional. An unticked
    box is not sent by a browser, so a page has to send "false" for it. A schema may also come whole, as JSON.
    """
    reader = _Reader(submitted, {})
    known = {field.name for field in form.every_field} | {field.name for field in form.fields}
    for name in submitted:
        if name not in known:
            reader.problems[name] = f"there is no such field; known: {', '.join(sorted(known)) or 'none'}"
    values: dict[str, Any] = {}
    for field in form.fields:
        reader.read(field, values, field.name)
    if reader.problems:
        raise FormError.of(form.name, reader.problems)
    return values


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the texts of one submission, and gathers what is wrong with them."""

    submitted: Mapping[str, str]
    problems: dict[str, str]

    def read(self, field: FormField, values: dict[str, Any], key: str) -> None:
        """Put the value of a field, if it has any, among the values."""
        text = self.submitted.get(field.name)
        if text is None and field.kind is FieldKind.SCHEMA:
            values[key] = self._schema(field)
        elif text is None and field.default is not None:
            values[key] = field.default
        elif text is None or text.strip() == "":
            if field.required:
                self.problems[field.name] = f"is required: {_WANTED[field.kind]}"
        else:
            self._written(field, values, key, text)

    def _schema(self, field: FormField) -> dict[str, Any]:
        inner: dict[str, Any] = {}
        for each in field.fields:
            self.read(each, inner, each.name.rpartition(".")[2])
        return inner

    def _written(self, field: FormField, values: dict[str, Any], key: str, text: str) -> None:
        try:
            values[key] = _value(field, text)
        except ValueError as error:
            self.problems[field.name] = str(error)


_WANTED = {
    FieldKind.TEXT: "write a text",
    FieldKind.INTEGER: "write a whole number",
    FieldKind.NUMBER: "write a number",
    FieldKind.BOOLEAN: "say yes or no",
    FieldKind.LIST: "write one entry on each line, or a JSON list",
    FieldKind.MAP: "write a JSON object",
    FieldKind.SCHEMA: "write a JSON object",
    FieldKind.JSON: "write JSON",
}


def _value(field: FormField, text: str) -> Any:
    """The value of a text that is not empty; ValueError says what was expected."""
    stripped = text.strip()
    if field.kind is FieldKind.TEXT:
        return text.replace("\r\n", "\n")
    if field.kind is FieldKind.BOOLEAN:
        if stripped.lower() not in _BOOLEANS:
            raise ValueError(f"expected yes or no, got {stripped[:40]!r}")
        return _BOOLEANS[stripped.lower()]
    if field.kind is FieldKind.LIST and not stripped.startswith("["):
        return [line.strip() for line in stripped.split("\n") if line.strip()]
    try:
        value = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{_WANTED[field.kind]}; got {stripped[:40]!r}") from error
    problem = _misfit(field, value)
    if problem:
        raise ValueError(problem)
    return value


def _misfit(field: FormField, value: Any) -> str | None:
    expected = {
        FieldKind.INTEGER: type(value) is int,
        FieldKind.NUMBER: type(value) in (int, float),
        FieldKind.MAP: isinstance(value, dict),
        FieldKind.SCHEMA: isinstance(value, dict),
        FieldKind.LIST: isinstance(value, list) and all(isinstance(each, str) for each in value),
    }
    return (
        None if expected.get(field.kind, True) else f"{_WANTED[field.kind]}; got {codec.encode(value)[:40]}"
    )
