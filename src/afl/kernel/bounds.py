"""What may come in from outside: how long, how large, of which characters. Checked once, where data enters.

Every store and every peer can hold what is allowed here: PostgreSQL knows no NUL, SQLite no integer of 64 bits and
more, and other readers of JSON none above 2**53. `Annotated` kinds are for what msgspec reads, functions for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from afl.kernel.errors import InputError

LONGEST_NAME = 512
LONGEST_RUN_ID = 200
LONGEST_TEXT = 64 * 1024
LONGEST_ERROR = 4 * 1024
LARGEST_COUNT = 2**31 - 1
LARGEST_NUMBER = 2**53
LAST_MS = 253_402_300_799_999  # the end of the year 9999: no later time can be shown
MOST_ITEMS = 100_000

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_PLAIN = rf"\A[^{_CONTROL}]*\Z"
_NO_NUL = r"\A[^\x00]*\Z"
_is_plain = re.compile(_PLAIN).match
A_NAME = f"1 to {LONGEST_NAME} characters, no control characters among them"
_WORDS = {
    f"matching regex {_PLAIN!r}": "without control characters",
    f"matching regex {_NO_NUL!r}": "without NUL",
}

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=_PLAIN)]
"""An id, or what people call something."""
NameOrNothing = Annotated[str, Meta(max_length=LONGEST_NAME, pattern=_PLAIN)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT, pattern=_NO_NUL)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Position = Annotated[int, Meta(ge=0, le=LARGEST_NUMBER)]
"""A place in something that grows for years."""
Integer = Annotated[int, Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Moment = Annotated[int, Meta(ge=0, le=LAST_MS)]
"""Milliseconds since 1970."""


def is_name(value: str, *, but: str = "") -> bool:
    """Whether a text can be an id or a name; `but` has the characters that this one must not hold either."""
    return (
        0 < len(value) <= LONGEST_NAME
        and _is_plain(value) is not None
        and not any(each in value for each in but)
    )


A_RUN_ID = f"at most {LONGEST_RUN_ID} printable characters, without spaces and slashes, and not '-' alone"


def is_run_id(value: Any) -> bool:
    """Whether it can be the id of a run: ids of steps and addresses begin with it, in which `-` is no name."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_RUN_ID:
        return False
    return value.isprintable() and not set(value) & {" ", "/"} and value != "-"


def check_name(value: Any, what: str) -> str:
    """The value when it is a name; else InputError."""
    if not isinstance(value, str) or not is_name(value):
        raise InputError(f"{what} is {str(value)[:80]!r}; expected {A_NAME}")
    return value


MOST_TAGS = 20
LONGEST_TAG = 256


def check_tags(tags: Any) -> dict[str, str]:
    """Tags when they are texts by name; else InputError."""
    if not isinstance(tags, Mapping) or len(tags) > MOST_TAGS:
        raise InputError(
            f"the tags are {str(tags)[:80]!r}; expected a map of at most {MOST_TAGS} texts by name"
        )
    for key, value in tags.items():
        if not isinstance(key, str) or not is_name(key, but="=") or len(key) > LONGEST_TAG:
            raise InputError(
                f"the tag {str(key)[:80]!r} has no proper name; expected 1 to {LONGEST_TAG} characters without '='"
            )
        if not isinstance(value, str) or (value and not is_name(value)) or len(value) > LONGEST_TAG:
            raise InputError(
                f"the tag {key!r} is {_shown(value)}; expected a text of at most {LONGEST_TAG} characters"
            )
    return dict(tags)


def _shown(value: Any) -> str:
    """The beginning of a value: a text in quotes, all else as Python writes it."""
    return repr(value[:80]) if isinstance(value, str) else repr(value)[:80]


def cut(text: str, longest: int = LONGEST_ERROR) -> str:
    """A text for people, cut where it is too long to be kept or shown."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def reason(error: msgspec.MsgspecError) -> str:
    """What msgspec says, with the patterns of this module in words."""
    text = str(error)
    for pattern, words in _WORDS.items():
        text = text.replace(pattern, words)
    return text
