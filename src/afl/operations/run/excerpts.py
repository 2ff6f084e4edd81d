"""A few lines of a program's source around a place, with a caret below it."""

from __future__ import annotations

from dataclasses import dataclass

from afl.runtime.program.program import Program

_AROUND = 2


@dataclass(frozen=True)
class ExcerptLine:
    """One line; `caret` is the blank before the caret, on the line that is meant."""

    number: int
    text: str
    is_hit: bool = False
    caret: str = ""


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source."""

    source: str
    line: int
    lines: list[ExcerptLine]


def excerpt(program: Program, line: int | None, column: int | None = None) -> Excerpt | None:
    """The lines around a place; None if the source was not stored with the program."""
    if line is None or not program.source_text:
        return None
    text = program.source_text.split("\n")
    if not 0 < line <= len(text):
        return None
    first, last = max(1, line - _AROUND), min(len(text), line + _AROUND)
    shown = []
    for number in range(first, last + 1):
        content = text[number - 1].rstrip("\r")
        hit = number == line
        # Tabs stay tabs so that the caret stands under its character whatever the tab width.
        lead = "".join("\t" if each == "\t" else " " for each in content[: (column or 1) - 1])
        shown.append(ExcerptLine(number, content, hit, lead if hit and column is not None else ""))
    return Excerpt(program.source, line, shown)
