"""Reading SQL just well enough to rewrite it: code on one side, text that must stay as it is on the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

# Comments come first so that an apostrophe inside one opens no string.
_OPAQUE = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<literal>
          (?<!\w)[eE]'(?:[^'\\]|\\.|'')*'      # PostgreSQL's escape string
        | '(?:[^']|'')*'
        | "(?:[^"]|"")*"
        | \$(?P<tag>[A-Za-z_]*)\$.*?\$(?P=tag)\$  # PostgreSQL's dollar quotes
      )
    """,
    re.DOTALL | re.VERBOSE,
)


def pieces(sql: str) -> Iterator[tuple[bool, str]]:
    """The text in order as (is code, text); comments are left out."""
    position = 0
    for match in _OPAQUE.finditer(sql):
        if match.start() > position:
            yield True, sql[position : match.start()]
        if match["literal"] is not None:
            yield False, match["literal"]
        else:
            yield True, " "
        position = match.end()
    if position < len(sql):
        yield True, sql[position:]


def rewrite_code(sql: str, change: Callable[[str], str]) -> str:
    """The text with `change` applied to its code, and its literals untouched."""
    return "".join(change(text) if is_code else text for is_code, text in pieces(sql))


def statements(sql: str) -> list[str]:
    """The statements of a script, split at semicolons outside literals; a trigger's body stays whole."""
    done: list[str] = []
    current = ""
    for is_code, text in pieces(sql):
        if not is_code:
            current += text
            continue
        *closed, rest = text.split(";")
        for part in closed:
            current += part
            if _inside_trigger(current):
                current += ";"
                continue
            done.append(current.strip())
            current = ""
        current += rest
    done.append(current.strip())
    return [statement for statement in done if statement]


_TRIGGER = re.compile(r"\s*create\s+(temp\s+|temporary\s+)?trigger\b.*\bbegin\b", re.IGNORECASE | re.DOTALL)
_END = re.compile(r"\bend\s*$", re.IGNORECASE)


def _inside_trigger(text: str) -> bool:
    return _TRIGGER.match(text) is not None and _END.search(text) is None
