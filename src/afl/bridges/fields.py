"""What a facet's return clause asks of the other side, and text from there as values of its types."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from afl.bridges.bridge import Errand
from afl.kernel import codec
from afl.runtime.program.values import TypeSpec, type_text

_WHOLE = re.compile(r"[+-]?[0-9]+")
_TRUTHS = {"true": True, "false": False}


def described(errand: Errand) -> dict[str, str] | None:
    """The fields that must come back, by name, each with its type and what the doc comment says; None: no clause."""
    if errand.facet is None or errand.returns is None:
        return None
    doc = errand.facet.ast.get("doc") or {}
    said = {each["name"]: str(each.get("description") or "") for each in doc.get("returns") or []}
    return {
        field.name: f"{type_text(field.type)}; {said[field.name]}"
        if said.get(field.name)
        else type_text(field.type)
        for field in errand.returns
    }


def typed(errand: Errand, texts: dict[str, str]) -> dict[str, Any]:
    """Values from a side that knows text alone. What is not as the type says stays text, and is refused as such."""
    kinds = {field.name: field.type for field in errand.returns or ()}
    return {name: _read(text, kinds.get(name, "String")) for name, text in texts.items()}


def chosen(errand: Errand, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that the return clause names; all of them where there is none."""
    if errand.returns is None:
        return values
    names = {field.name for field in errand.returns}
    return {name: value for name, value in values.items() if name in names}


def _read(text: str, kind: TypeSpec) -> Any:
    plain = text.strip()
    if kind in ("String", "Any"):
        return text
    if kind in ("Long", "Int"):
        return int(plain) if _WHOLE.fullmatch(plain) else text
    if kind == "Boolean":
        return _TRUTHS.get(plain.lower(), text)
    try:
        return codec.decode(plain)
    except msgspec.DecodeError:
        return text
