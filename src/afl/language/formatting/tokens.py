"""The tokens of a text with its comments, each with its place: enough to lay it out anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<line_comment>//[^\n]*)
    | (?P<block_comment>/\*(?:[^*]|\*(?!/))*\*/)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
    | (?P<value>\$(?:\.\w+)+|\d+\.\d+(?:[eE][+-]?\d+)?|\d+)
    | (?P<operator>=>|\+\+|\|\||&&|==|!=|>=|<=|[-+*/%<>!=])
    | (?P<open>\#\{|[({\[])
    | (?P<close>[)}\]])
    | (?P<mark>[,:;.])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One token or comment. `gap` counts the newlines between it and the piece before."""

    kind: str
    text: str
    line: int
    column: int
    gap: int

    @property
    def is_comment(self) -> bool:
        return self.kind in ("line_comment", "block_comment")


def pieces(text: str) -> Iterator[Piece]:
    """Everything in the text but white space."""
    line, line_start, end = 1, 0, 0
    for match in _TOKEN.finditer(text):
        gap = text.count("\n", end, match.start())
        if gap:
            line += gap
            line_start = text.rfind("\n", 0, match.start()) + 1
        found = match[0].rstrip() if match.lastgroup == "line_comment" else match[0]
        yield Piece(match.lastgroup or "", found, line, match.start() - line_start + 1, gap)
        inner = match[0].count("\n")
        if inner:
            line += inner
            line_start = text.rfind("\n", 0, match.end()) + 1
        end = match.end()
