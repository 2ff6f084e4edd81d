"""Values as MongoDB can hold them.

Agents of other languages read and write these documents, so values are native BSON wherever that is exact. BSON and
the server cannot hold everything JSON can: keys that are empty, contain a dot or NUL or begin with a dollar, integers
over 63 bits, deep nesting, and, since BSON lists are several times as long as JSON ones, very large values. Those
are stored as JSON text: an attribute says so by `encoding: "json"`; a field that is always a map (payload, data,
inputs, outputs, ...) by being a string.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from afl.kernel import codec
from afl.runtime.types import AttributeValue

Document = dict[str, Any]

NATIVE_BYTES = 512 * 1024
_DEEPEST = 40
_INT64 = 1 << 63
_UNFIT = re.compile(r"[.\x00]|^\$|^$")
_ESCAPED = re.compile(r"[%.$\x00]")


def fits(value: Any, depth: int = 0) -> bool:
    """Whether BSON holds a value (made of plain JSON data) exactly."""
    if isinstance(value, dict):
        return depth < _DEEPEST and all(
            not _UNFIT.search(key) and fits(each, depth + 1) for key, each in value.items()
        )
    if isinstance(value, list):
        return depth < _DEEPEST and all(fits(each, depth + 1) for each in value)
    return not isinstance(value, int) or -_INT64 <= value < _INT64


def map_value(value: Document | None, what: str) -> Document | str | None:
    """A map as a subdocument, or as JSON text; PayloadError if it is no plain data or too large."""
    if value is None:
        return None
    text = codec.encode(value, what=what)
    plain: Document = codec.decode(text)
    return plain if len(text) <= NATIVE_BYTES and fits(plain) else text


def map_from(stored: Document | str | None) -> Document:
    """The map of a field; an absent one is empty. ValueError if there is something else."""
    if isinstance(stored, str):
        return codec.decode_map(stored)
    if not isinstance(stored, dict | None):
        raise ValueError(f"expected a map, found {type(stored).__name__}")
    return stored or {}


def optional_map_from(stored: Document | str | None) -> Document | None:
    """The map of a field that may be null."""
    return None if stored is None else map_from(stored)


def attribute_documents(attributes: dict[str, AttributeValue], what: str) -> Document:
    """Attributes by name: {n: {name, value, type_hint}}."""
    if not attributes:
        return {}
    text = codec.encode({name: attribute.value for name, attribute in attributes.items()}, what=what)
    native = len(text) <= NATIVE_BYTES
    values: Document = codec.decode(text)
    return {
        _key(name): _attribute(name, values[name], attribute.type_hint, native)
        for name, attribute in attributes.items()
    }


def attributes_from(stored: Document | None) -> dict[str, AttributeValue]:
    """The attributes of a step's document, whoever wrote it."""
    attributes = (_attribute_from(key, document) for key, document in (stored or {}).items())
    return {attribute.name: attribute for attribute in attributes}


def _attribute(name: str, value: Any, type_hint: str, native: bool) -> Document:
    if native and fits(value):
        return {"name": name, "value": value, "type_hint": type_hint}
    text = codec.encode(value)
    return {"name": name, "value": text, "type_hint": type_hint, "encoding": "json"}


def _attribute_from(key: str, document: Document) -> AttributeValue:
    value: Any = document.get("value")
    if document.get("encoding") == "json":
        value = codec.decode(value)
    return AttributeValue(document.get("name", unquote(key)), value, document.get("type_hint") or "Any")


def _key(name: str) -> str:
    """A name as a field name: nearly always itself; what a path could not reach is percent-escaped."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name) or "%"
