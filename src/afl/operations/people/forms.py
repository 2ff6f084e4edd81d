"""Typed forms: what a person is asked for, and what the answers mean.

A form is made of a facet's return clause (an approval) or of a workflow's parameters (a start). Answers come as texts
by the name of their field, as a page or a command line has them; fields of a schema are named `payee.city`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.operations.people.form_fields import FieldKind, Form, FormField, value_text
from afl.operations.people.form_making import answer_form, start_form

__all__ = [
    "FieldKind",
    "Form",
    "FormError",
    "FormField",
    "answer_form",
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
