"""Values as PostgreSQL reads them in statements: as text, and of a type that goes with every statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

_UNKNOWN = 0  # the server sees by the place
_BOOLEAN, _BIGINT, _FLOAT = 16, 20, 701
_TYPES = {int: _BIGINT, bool: _BOOLEAN, float: _FLOAT}


def types_of(values: Iterable[Any]) -> tuple[int, ...]:
    """Their types. A number's must be told: beside a small constant the server would take it for a small one too."""
    return tuple([_TYPES.get(type(value), _UNKNOWN) for value in values])


def sent(values: Iterable[Any]) -> list[bytes | None]:
    """Text, numbers, truth, null and lists of them, as text that ends with its first zero byte."""
    found = [_WRITERS.get(type(value), _other)(value) for value in values]
    if b"\0" in b"".join(filter(None, found)):
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return found


def _nothing(value: None) -> None:
    return None


# Most values are of these types, and a commit has a hundred of them.
_WRITERS: dict[type, Callable[[Any], bytes | None]] = {
    str: str.encode,
    int: b"%d".__mod__,
    type(None): _nothing,
}


def _other(value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is None:
        return None
    if isinstance(value, bool | float):
        return str(value).encode()
    if isinstance(value, int):
        return int.__repr__(value).encode()  # of an enumeration, the number
    if isinstance(value, list | tuple):
        return _array(value)
    raise psycopg.DataError(f"PostgreSQL statements are not given values like {type(value).__name__}")


def _array(values: Sequence[Any]) -> bytes:
    return b"{" + b",".join(map(_element, values)) + b"}"


def _element(value: Any) -> bytes:
    if isinstance(value, str):
        return b'"' + value.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    if isinstance(value, list | tuple):
        raise psycopg.DataError("PostgreSQL statements are not given lists of lists")
    return _other(value) or b"NULL"
