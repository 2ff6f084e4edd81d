"""What a form is made of: typed fields, and the error of answers that do not fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afl.kernel import codec
from afl.kernel.errors import InputError


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


class FormError(InputError, hint="Correct the fields that are named; nothing was stored."):
    """Answers that do not fit their form; `problems` says what is wrong with each field, by its name."""

    def __init__(self, message: str, problems: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.problems = dict(problems or {})

    @classmethod
    def of(cls, form: str, problems: Mapping[str, str]) -> FormError:
        """The error of these problems."""
        return cls(f"{form}: " + "; ".join(f"{name}: {text}" for name, text in problems.items()), problems)
