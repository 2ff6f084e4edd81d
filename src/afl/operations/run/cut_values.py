"""Values as lists show them."""

from __future__ import annotations

from typing import Any

from afl.kernel import codec

_LONGEST = 200


def cut(value: Any) -> Any:
    """The value; a long one as the beginning of its text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else codec.encode(value)
    return value if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
