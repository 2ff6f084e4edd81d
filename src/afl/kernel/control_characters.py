r"""Control characters in stored texts, which a terminal would obey: ESC moves the cursor, changes the title.

They are stored and sent as they are. Where a text is printed for people, they are written as `\x1b`.
"""

from __future__ import annotations

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but the tab and the line feed


def visible_controls(text: str) -> str:
    r"""The text with each control character but \n and \t written as `\x1b`."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def escaped_json(document: str) -> str:
    r"""A JSON document with the control characters that JSON allows in a text written as `\u009b`."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
