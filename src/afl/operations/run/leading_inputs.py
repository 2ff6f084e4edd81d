"""The first input values of a run on one line, by which runs of one workflow are told apart."""

from __future__ import annotations

import json
from typing import Any

from afl.kernel.redaction import redacted

_MOST = 120
_MOST_VALUE = 40
_DECODER = json.JSONDecoder(strict=False)
_BLANK = " \t\r\n"


def leading_inputs(text: str) -> str:
    """`order=7 customer=Ada` from the beginning of a JSON object that may be cut off; secrets are masked."""
    parts: list[str] = []
    position = 1
    while len(text) > position and sum(map(len, parts)) < _MOST:
        try:
            name, position = _DECODER.raw_decode(text, _skipped(text, position))
            value, position = _value(text, _skipped(text, position))
        except (ValueError, RecursionError):  # here it was cut off
            break
        parts.append(f"{name}={value}")
        position = _skipped(text, position)
        if text[position : position + 1] == "}":
            return _shortened(redacted(" ".join(parts)))
    return _shortened(redacted(" ".join([*parts, "…"]))) if parts else ""


def _value(text: str, start: int) -> tuple[str, int]:
    """A value in words, and where it ends; a text that was cut off is as long as what is left of it."""
    if text[start : start + 1] == '"':
        try:
            found, end = _DECODER.raw_decode(text, start)
        except ValueError:
            return _shortened(text[start + 1 :], _MOST_VALUE), len(text)
        return _shortened(found, _MOST_VALUE), end
    found, end = _DECODER.raw_decode(text, start)
    return _words(found), end


def _words(value: Any) -> str:
    """A short list or object itself, and how many values a long one has."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(text) <= _MOST_VALUE:
        return text
    items = f"{len(value)} item{'' if len(value) == 1 else 's'}"
    return f"[{items}]" if isinstance(value, list) else f"{{{items}}}"


def _skipped(text: str, position: int) -> int:
    while position < len(text) and text[position] in f"{_BLANK},:":
        position += 1
    return position


def _shortened(text: str, most: int = _MOST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
