"""Parameters and results of operations as JSON and back, for the HTTP API, its client and MCP.

msgspec handles dataclasses and structs; the hooks here handle StepFailure and Pydantic models.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import msgspec

from afl.kernel import codec
from afl.kernel.errors import PayloadError
from afl.runtime.errors import StepFailure

REFERENCE = "#/components/schemas/{name}"


def encode(value: Any) -> bytes:
    """The JSON of a result."""
    return msgspec.json.encode(value, enc_hook=_plain)


def decode(data: bytes, kind: Any) -> Any:
    """The result of JSON."""
    return msgspec.json.decode(data, type=kind, dec_hook=_built)


def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """A parameter from plain data; not strict: from text, as query and path have it."""
    return msgspec.convert(value, kind, strict=strict, dec_hook=_built)


def plain(value: Any, *, what: str = "the value") -> Any:
    """A value as plain data; PayloadError, which names `what`, for one that has no JSON form."""
    try:
        return msgspec.to_builtins(value, enc_hook=_plain)
    except (TypeError, RecursionError) as error:
        raise PayloadError(f"{what} is not plain JSON data: {error}") from error


def schemas(kinds: list[Any], *, reference: str = REFERENCE) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The JSON schema of each kind, and of all that they refer to by name."""
    found, components = msgspec.json.schema_components(kinds, schema_hook=_schema, ref_template=reference)
    for each in components.values():
        if "description" in each:
            each["description"] = inspect.cleandoc(each["description"])
    return list(found), components


def _plain(value: Any) -> Any:
    if isinstance(value, StepFailure):
        return value.to_dict()
    return codec.plain(value)


def _built(kind: type[Any], value: Any) -> Any:
    if issubclass(kind, StepFailure):
        return StepFailure.from_dict(value)
    if _is_model(kind):
        return kind.model_validate(value)
    raise PayloadError(f"{kind.__name__} cannot be read")


def _schema(kind: type[Any]) -> dict[str, Any]:
    about = (kind.__doc__ or "").strip().partition("\n")[0]
    if issubclass(kind, StepFailure) or _is_model(kind):
        return {"type": "object", "title": kind.__name__, "description": about}
    raise NotImplementedError(f"{kind.__name__} has no schema")


def _is_model(kind: type[Any]) -> bool:
    """Whether it is one of Pydantic, which is only there with the parts that need it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)
