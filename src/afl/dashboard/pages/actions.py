"""What forms send: texts of fields, and the answers to typed forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.operations.people.forms import FieldKind, Form

_DIGITS = 17
FIELD = "field."
"""What the names of a typed form's fields begin with on a page, so that they meet no other."""


def number_of(text: str, most: int = 1 << 53) -> int:
    """A number that an address carries; 0 for what is none (`isdigit` alone would also take `²`)."""
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < _DIGITS else 0


def text_of(form: Mapping[str, Any], name: str) -> str:
    """A field's text without the space around it; nothing for a file or a field that was not sent."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def submitted(form: Form, data: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a typed form by field; a box that is not ticked is false, since browsers do not send it."""
    texts: dict[str, str] = {}
    for field in form.every_field:
        value = data.get(FIELD + field.name)
        if isinstance(value, str):
            texts[field.name] = value
        elif field.kind is FieldKind.BOOLEAN:
            texts[field.name] = "false"
    return texts


def shown_texts(form: Form) -> dict[str, str]:
    """What stands in the fields before anybody wrote there."""
    return {field.name: field.text for field in form.every_field}
