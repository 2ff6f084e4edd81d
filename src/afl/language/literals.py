"""From the spelling of a literal to its value."""

from __future__ import annotations

import math
import re

MAX_INTEGER = 2**63 - 1

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode_string(spelling: str) -> str:
    """The text of a literal. Unknown escapes keep their backslash; ValueError for half a surrogate pair."""
    inner = spelling[1:-1]
    if "\\" not in inner:
        return inner
    text = _ESCAPE.sub(_replacement, inner)
    if _SURROGATE.search(text):
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise ValueError(
                "A \\u escape is half of a surrogate pair; write both halves or the character"
            ) from None
    return text


def _replacement(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        return chr(int(code, 16))
    return _SIMPLE.get(match[3], match[0])


def decode_integer(spelling: str) -> int:
    """The value of a run of digits; ValueError beyond 64 bits, which no store keeps exactly."""
    if len(spelling.lstrip("0")) > 19 or (value := int(spelling)) > MAX_INTEGER:
        raise ValueError(f"Integer literal is too large: the largest is {MAX_INTEGER}")
    return value


def decode_float(spelling: str) -> float:
    """The value of a decimal fraction; ValueError when it is too large for a double."""
    value = float(spelling)
    if math.isinf(value):
        raise ValueError("Number literal is too large for a Double")
    return value
