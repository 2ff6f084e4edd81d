"""The formatter: same program, same comments, one layout. Formatting twice changes nothing more."""

from __future__ import annotations

from afl.language.formatting.layout import INDENT, lay_out
from afl.language.formatting.lines import Line, LineBuilder, needed
from afl.language.formatting.starts import starts_of
from afl.language.formatting.tokens import pieces
from afl.language.parser import AFLParser


def format_source(text: str, name: str = "<string>") -> str:
    """The text in the standard layout; ParseError when it is no AFL."""
    starts = starts_of(AFLParser().parse(text, name))
    found = list(needed(list(pieces(text))))
    written: list[str] = []
    for line in LineBuilder(found, starts).lines():
        if line.blank:
            written.append("")
        written += _written(line)
    return "\n".join(written) + "\n" if written else ""


def _written(line: Line) -> list[str]:
    if len(line.pieces) == 1 and line.pieces[0].is_comment:
        return _comment(line.pieces[0].text, INDENT * line.depth)
    return lay_out(line.pieces, line.depth)


def _comment(text: str, lead: str) -> list[str]:
    """A comment of its own, its later lines aligned with the first."""
    first, *rest = (one.strip() for one in text.split("\n"))
    return [lead + first, *(_continued(one, lead) for one in rest)]


def _continued(text: str, lead: str) -> str:
    if not text:
        return ""
    return f"{lead} {text}" if text.startswith("*") else f"{lead}   {text}"
