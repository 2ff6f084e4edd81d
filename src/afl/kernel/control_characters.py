r"""Characters in stored texts that a terminal would obey, or that change what a reader sees without being seen.

Of the first kind are control characters: ESC moves the cursor, changes the title. Of the second are formats: an
override shows a text reversed, and a space without width hides in it. They are stored and sent as they are. Where a
text is printed for people, they are written as `\x1b` and `\u202e`.
"""

from __future__ import annotations

import json
import re

_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # all but the tab and the line feed
_JOINED = (
    "\u0590-\u1cff\u2190-\u2bff\ua800-\uabff\ufb50-\ufdff\ufe0f\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001f000-\U0001fbff"
)
_FORMATS = (
    "[\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
    f"|(?<![{_JOINED}])[\u200c\u200d]"  # behind Arabic and Indic letters and emojis, joiners are spelling
)
_formats = re.compile(_FORMATS)
_all = re.compile(f"{_CONTROLS}|{_FORMATS}")


def visible_formats(text: str) -> str:
    r"""The text with each invisible format character written as `\u202e`, for pages and the like."""
    return text if text.isascii() else _formats.sub(_written, text)


def visible_controls(text: str) -> str:
    r"""The text with each control character but \n and \t written as `\x1b`, and formats as `visible_formats` does."""
    return text if text.isprintable() else _all.sub(_written, text)  # a long line in a twentieth of the time


def escaped_json(document: str) -> str:
    r"""A JSON document with the control and format characters that JSON allows in a text written as `\u009b`."""
    return _all.sub(lambda found: _escaped(found[0]), document)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else _escaped(found[0])


def _escaped(character: str) -> str:
    r"""As JSON escapes it, which above \uffff takes two."""
    code = ord(character)
    return json.dumps(character)[1:-1] if code > 0xFFFF else f"\\u{code:04x}"
