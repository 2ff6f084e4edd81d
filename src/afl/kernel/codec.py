"""One codec for everything that is stored or sent: JSON text, by msgspec.

Stored values are plain data: null, booleans, integers, finite floats, strings, lists and maps with string keys.
Dataclasses and pydantic models encode to maps, paths to texts, and `decode_as` builds dataclasses again.
"""

from __future__ import annotations

import dataclasses
import json
import math
from array import array
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

from afl.kernel.errors import PayloadError

T = TypeVar("T")
# For classes derived from them, such as those of numpy.
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)

MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
# Of lists and maps in a value from outside. How deep a decoder goes by itself depends on the version of Python, and on
# the stack of the caller: what one process has stored, another could not read.
MAX_LEVELS = 200
_STORED_LEVELS = 300  # with what is stored around such a value
_MOST_LEVELS = 20  # that the place of a fault is looked for; a value may hold itself
_TOO_DEEP = "it holds itself, or lists and maps are nested too deeply in it"
# One level down and one level up: 1 and -1 as signed bytes.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_NO_JSON = (TypeError, OverflowError, ValueError, RecursionError)


def plain(value: Any) -> Any:
    """A value that msgspec does not know, as one that it knows; for its `enc_hook`."""
    if hasattr(type(value), "model_dump"):  # a pydantic model
        return value.model_dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    if value is None or isinstance(value, bool):  # msgspec knows the values
        raise TypeError(f"{value} is no key of a map in JSON; use a text")
    for kind, base in _BASES:
        if isinstance(value, kind):
            return base(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form; use its fields, or a text")


_limit = MAX_PAYLOAD_BYTES
_encode = msgspec.json.Encoder(enc_hook=plain).encode
_ordered_encoder = msgspec.json.Encoder(order="deterministic")
_decode = msgspec.json.Decoder().decode


def set_payload_limit(limit: int) -> None:
    """How large a value may be in this process, in bytes of JSON (the setting AFL_MAX_PAYLOAD_BYTES)."""
    global _limit
    _limit = limit


def encode(value: Any, *, what: str = "value", limit: int | None = None, levels: int = _STORED_LEVELS) -> str:
    """JSON text of a value; PayloadError names `what` when it is not plain data or over a limit."""
    try:
        data = _encode(value)
        _check_levels(data, levels)
    except RecursionError as error:
        raise PayloadError(f"{what} is not plain JSON data: {_TOO_DEEP}") from error
    except _NO_JSON as error:
        raise PayloadError(f"{what} is not plain JSON data: {_place(value, _has_no_json)}{error}") from error
    if b"null" in data and not _is_finite(value):
        place = _place(value, lambda part: not _is_finite(part))
        raise PayloadError(f"{what} is not plain JSON data: {place}it holds NaN or an infinity")
    most = _limit if limit is None else limit
    if len(data) > most:
        raise PayloadError(f"{what} is {len(data):,} bytes, more than the limit of {most:,}")
    return data.decode()


def plain_data(value: Any, *, what: str = "value", limit: int | None = None) -> Any:
    """A value from outside as whoever reads it from a store sees it; PayloadError as `encode`, and where it would lose
    one of two keys that are the same text in JSON."""
    text = encode(value, what=what, limit=limit, levels=MAX_LEVELS)
    data = _decode(text)
    if _encode(data).decode() != text:
        place = _place(value, _loses_keys)
        raise PayloadError(
            f"{what} is not plain JSON data: {place}two of its keys are the same text in JSON, as 1 and '1' are"
        )
    return data


def encode_rows(rows: Any) -> str:
    """JSON text of rows whose values have been through `encode` already: nothing is checked again."""
    return _encode(rows).decode()


def _is_finite(value: Any) -> bool:
    """Whether no float in a value is NaN or infinite; the encoder would write null for those."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
        elif item is not None and not isinstance(item, (str, int)):
            pending.append(msgspec.to_builtins(item, enc_hook=plain))
    return True


def _has_no_json(value: Any) -> bool:
    try:
        _encode(value)
    except _NO_JSON:
        return True
    return False


def _loses_keys(value: Any) -> bool:
    data = _encode(value)
    return _encode(_decode(data)) != data


def _place(value: Any, is_at_fault: Callable[[Any], bool]) -> str:
    """Where in a value the part at fault is, as `at rows[2].price: `; nothing if it is the value itself."""
    place = ""
    for _ in range(_MOST_LEVELS):
        found = next(((step, part) for step, part in _parts(value) if is_at_fault(part)), None)
        if found is None:
            break
        step, value = found
        place += step
    return f"at {place.removeprefix('.')}: " if place else ""


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return ((f".{key}", part) for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ((f"[{index}]", part) for index, part in enumerate(value))
    if dataclasses.is_dataclass(value):
        return ((f".{each.name}", getattr(value, each.name)) for each in dataclasses.fields(value))
    return ()


def encode_canonical(value: Any) -> bytes:
    """JSON bytes with sorted keys: equal values give equal bytes, so they can be hashed."""
    return _ordered_encoder.encode(value)


def decode(text: str | bytes) -> Any:
    """The value of JSON text written by `encode`."""
    return _decode(text)


def read(text: str | bytes) -> Any:
    """The value of a JSON text that somebody else wrote; ValueError if it is none, RecursionError if it is too deep."""
    _check_levels(text.encode() if isinstance(text, str) else text, MAX_LEVELS)
    return _decode(text)


def _check_levels(text: bytes, most: int) -> None:
    """RecursionError for a JSON text with lists and maps in more levels."""
    if len(text) <= 2 * most or text.count(b"[") + text.count(b"{") <= most:
        return  # as nearly always
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    without_strings = b"".join(text.split(b'"')[::2])
    if max(accumulate(array("b", without_strings.translate(_STEPS, _NO_BRACKETS))), default=0) > most:
        raise RecursionError(_TOO_DEEP)


def value_of(text: str) -> Any:
    """The value of a text that somebody else wrote, if JSON has it; else the text itself.

    So a text with two equal keys, of which one would be lost, with NaN or half a character stays one.
    """
    try:
        value = read(text)
        if isinstance(value, (dict, list)):
            json.loads(text, object_pairs_hook=_without_equal_keys)
    except (ValueError, RecursionError):
        return text
    return value


def _without_equal_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in a map")
    return found


def decode_map(text: str | bytes) -> dict[str, Any]:
    """The map of JSON text; ValueError if it is none."""
    value = _decode(text)
    if value.__class__ is not dict:
        raise ValueError(f"expected a map, found {type(value).__name__}")
    return value


def decode_as(text: str | bytes, kind: type[T]) -> T:
    """A dataclass (or any other annotated type) from JSON text."""
    return msgspec.json.decode(text, type=kind)
