"""The values of a form: what was written or sent, checked, and what stands in the form for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from afl.kernel import codec
from afl.operations.people.form_fields import FieldKind, Form, FormError, FormField

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


def parse(form: Form, submitted: Mapping[str, str]) -> dict[str, Any]:
    """The values that the texts mean; FormError says what is wrong with each field.

    A field that is not there has what stood in it; one that was cleared has its default, if it is optional. An unticked
    box is not sent by a browser, so a page has to send "false" for it. A schema may also come whole, as JSON.
    """
    return complete(form, *_read(form, submitted))


def written(form: Form, submitted: Mapping[str, str]) -> dict[str, Any]:
    """The values of the texts alone, to be completed by whoever is told them; null for a field that was cleared."""
    values, problems = _read(form, submitted)
    if problems:
        raise FormError.of(form.name, problems)
    return values


def _read(form: Form, submitted: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of texts, and what is wrong with them."""
    known = _known(form)
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, text in submitted.items():
        field = known.get(name)
        try:
            values[name] = None if field is None or text.strip() == "" else _value(field, text)
        except ValueError as error:
            problems[name] = str(error)
    return values, problems


def complete(
    form: Form, given: Mapping[str, Any], problems: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The values of all fields: those given, and what stands in the form for the others.

    A schema is given whole, or by the names of its fields (`payee.city`). A field that is optional and null has its
    default. FormError says what is wrong with each field, `problems` that are known before included.
    """
    found = dict(problems or {})
    known = _known(form)
    for name in given:
        if name not in known:
            found[name] = f"there is no such field; known: {', '.join(sorted(known)) or 'none'}"
    values = _completed(form.fields, given, found)
    if found:
        raise FormError.of(form.name, found)
    return values


def _known(form: Form) -> dict[str, FormField]:
    """What can be given, by name: the fields, and instead of a schema also the fields of it."""
    return {field.name: field for field in (*form.fields, *form.every_field)}


def _completed(
    fields: Iterable[FormField], given: Mapping[str, Any], problems: dict[str, str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields:
        key = field.name.rpartition(".")[2]
        if field.kind is FieldKind.SCHEMA and given.get(field.name) is None:
            values[key] = _completed(field.fields, given, problems)
        elif given.get(field.name) is not None:
            values[key] = given[field.name]
        elif field.name not in given and field.default is not None:
            values[key] = field.default
        elif field.required and field.name not in problems:
            problems[field.name] = f"is required: {_WANTED[field.kind]}"
    return values


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
        value = codec.read(stripped)
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
