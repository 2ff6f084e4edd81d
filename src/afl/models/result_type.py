"""The type of a result: its JSON schema for the model, what is wrong with an answer, and the value for the caller.

A type is a pydantic model, a dataclass, a TypedDict, or whatever else pydantic has a schema for; or a JSON schema
alone, where the type is known only to another process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache, cached_property, partial
from typing import Any, Generic, TypeVar, is_typeddict
from uuid import UUID

import msgspec

from afl.kernel import codec
from afl.kernel.error_text import text_of
from afl.kernel.errors import InputError, PayloadError
from afl.models.pydantic_reader import PydanticReader

T = TypeVar("T")
_FORMATS = {"date": date, "date-time": datetime, "time": time, "duration": timedelta, "uuid": UUID}


@dataclass(frozen=True)
class ResultType(Generic[T]):
    """What a result must be. `kind` is None where only the schema is known."""

    name: str
    schema: Mapping[str, Any]
    kind: Any = None

    def data(self, given: Any) -> Any:
        """The answer as the JSON data to store; InputError says what is wrong with it."""
        if self.kind is None:
            problem = schema_problem(self.schema, given)
            if problem:
                raise InputError(problem)
            return given
        data = self._reader.dump(self.value(given))
        try:
            codec.encode(data, what="it", limit=sys.maxsize)
        except PayloadError as error:  # pydantic makes NaN of a text
            raise InputError(str(error)) from error
        return data

    def value(self, data: Any) -> T:
        """The value of the type; without one, the data itself. InputError says what is wrong."""
        if self.kind is None:
            found: T = self.data(data)
            return found
        value: T = self._reader.parse(data)
        return value

    @property
    def titled(self) -> dict[str, Any]:
        """The schema, with the name in it."""
        return {**self.schema, "title": self.name}

    @property
    def key(self) -> str:
        """The same for the same type, in any process."""
        return codec.encode_canonical([self.name, self.schema]).decode()

    @cached_property
    def _reader(self) -> PydanticReader | _Plain:
        return _reader(self.kind)


def result_type(given: Any) -> ResultType[Any]:
    """The result that a type, or a JSON schema, describes; InputError for what has none, or is none."""
    if isinstance(given, ResultType):
        return given
    if isinstance(given, Mapping):
        _check_schema(given)
        return ResultType(str(given.get("title") or "result"), dict(given))
    name = getattr(given, "__name__", None) or str(given)
    return ResultType(str(name), _reader(given).schema(), given)


def _check_schema(given: Mapping[str, Any]) -> None:
    """InputError if it is no JSON schema, which only the first answer of a model would tell otherwise."""
    validator = _validator()
    if validator is None:
        return
    found = min(validator(validator.META_SCHEMA).iter_errors(dict(given)), key=_path, default=None)
    if found is not None:
        raise InputError(f"the result is no JSON schema: {found.json_path}: {found.message}")


def _validator() -> Any:
    """That of jsonschema; None without the package, which comes with the extra of a provider."""
    try:
        from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        return None
    return Draft202012Validator


def _nothing_elsewhere() -> Any:
    from referencing import Registry  # noqa: PLC0415  comes with jsonschema

    return Registry()


@cache
def _formats() -> Any:
    """Formats of texts that have a type of Python's own; that of jsonschema needs a package for some of them."""
    from jsonschema import FormatChecker  # noqa: PLC0415

    checker = FormatChecker(formats=())
    for name, kind in _FORMATS.items():
        checker.checks(name, raises=msgspec.ValidationError)(partial(_has_format, kind))
    return checker


def _has_format(kind: type, value: Any) -> bool:
    return not isinstance(value, str) or isinstance(msgspec.convert(value, kind), kind)


def _path(problem: Any) -> str:
    path: str = problem.json_path
    return path


def schema_problem(schema: Mapping[str, Any], data: Any) -> str | None:
    """What is wrong with data by a JSON schema; None if nothing is."""
    return "; ".join(schema_problems(schema, data).values()) or None


def schema_problems(schema: Mapping[str, Any], data: Any) -> dict[str, str]:
    """What is wrong with data, by the field at the top where it is; empty for the whole.

    InputError if the schema cannot be used; nothing that it refers to elsewhere is loaded. Without the package
    jsonschema only the names at the top are checked: whoever asked for the result checks it again.
    """
    validator = _validator()
    if validator is None:
        missing = [
            name for name in schema.get("required", ()) if not (isinstance(data, Mapping) and name in data)
        ]
        return {"": f"it lacks {', '.join(missing)}"} if missing else {}
    checker = validator(dict(schema), registry=_nothing_elsewhere(), format_checker=_formats())
    try:
        found = sorted(checker.iter_errors(data), key=_path)[:5]
    except Exception as error:  # for an unknown type, a reference to nowhere, a bad pattern
        raise InputError(f"the schema cannot be used: {text_of(error)}") from error
    texts: dict[str, list[str]] = {}
    for each in found:
        field = str(each.path[0]) if each.path else ""
        texts.setdefault(field, []).append(f"{each.json_path}: {each.message}")
    return {field: "; ".join(told) for field, told in texts.items()}


class _Plain:
    """A TypedDict, which pydantic reads only from Python 3.12 on."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def schema(self) -> dict[str, Any]:
        (schema,), shared = msgspec.json.schema_components([self._kind], ref_template="#/$defs/{name}")
        root = shared.pop(self._kind.__name__, schema)
        return {**root, "$defs": shared} if shared else dict(root)

    def parse(self, data: Any) -> Any:
        try:
            return msgspec.convert(data, self._kind, str_keys=True)
        except msgspec.ValidationError as error:
            raise InputError(str(error)) from error

    def dump(self, value: Any) -> Any:
        return msgspec.to_builtins(value, str_keys=True)


def _reader(kind: Any) -> PydanticReader | _Plain:
    return _Plain(kind) if is_typeddict(kind) else PydanticReader(kind)
