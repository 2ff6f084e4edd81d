"""The inputs of a run, from what a person types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from afl.kernel.errors import InputError, PayloadError
from afl.runtime.program.inputs import check_inputs
from afl.runtime.program.program import Program
from afl.runtime.program.values import TypeSpec, misfit, type_text

_MISSING = object()


def read_inputs(
    program: Program, pairs: Iterable[str] = (), file: str | Path | None = None
) -> dict[str, Any]:
    """The inputs that `name=value` pairs and a JSON file give; the pairs win. InputError if one does not fit."""
    given = _read_file(Path(file)) if file is not None else {}
    given |= _read_pairs(program, pairs)
    try:
        check_inputs(program, given)
    except PayloadError:
        raise
    except InputError as error:
        raise InputError(f"{error}\n{_how(program)}") from error
    return given


def _how(program: Program) -> str:
    """What the workflow takes, and how one writes it."""
    params = program.workflow.params
    if not params:
        return "It takes no inputs."
    taken = ", ".join(f"{param.name}: {type_text(param.type)}" for param in params)
    return f"It takes ({taken}); write --input {params[0].name}=VALUE, a text as it is and all else as JSON."


def _read_pairs(program: Program, pairs: Iterable[str]) -> dict[str, Any]:
    kinds = {param.name: param.type for param in program.workflow.params}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise InputError(f"an input is written name=value, got {pair!r}")
        if name in values:
            raise InputError(f"input {name!r} is given twice")
        values[name] = read_value(text, kinds.get(name, "Any"), program.schemas)
    return values


def read_value(text: str, kind: TypeSpec, schemas: Mapping[str, Mapping[str, Any]]) -> Any:
    """The value of a typed text: JSON if that fits the type, else the text itself."""
    value = _json(text.encode())
    if kind == "String":
        return value if isinstance(value, str) else text
    fits = value is not _MISSING and misfit(value, kind, schemas, "value") is None
    return value if fits else text


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return _MISSING


def _read_file(path: Path) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"File not found: {path}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f'{path} holds no JSON object; expected the inputs by name, like {{"name": 1}}')
    return value
