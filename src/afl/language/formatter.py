"""The formatter: same program, same comments, one layout. Formatting twice changes nothing more.

A logical line is one line of text if it fits, else one line per mixin, else its first bracket is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from afl.language.format_lines import Line, LineBuilder, Piece, needed, pieces, starts_of
from afl.language.parser import AFLParser

WIDTH = 100
INDENT = "    "

_WORD_OPERATORS = frozenset({"if", "in", "not", "contains", "startsWith", "endsWith", "case"})
_PAIRS = {"(": ")", "[": "]", "#{": "}"}


def lay_out(line: Sequence[Piece], depth: int) -> list[str]:
    """The logical line as one or more lines of text."""
    lead = INDENT * depth
    code = [piece for piece in line if piece.kind != "line_comment"]
    # A comment at the very end does not count against the width, nor does it need a line break after it.
    trailing = line[-1:] if line and line[-1].kind == "line_comment" else []
    if len(code) + len(trailing) == len(line):
        text = lead + joined(code)
        if len(text) <= WIDTH or _first_group(code) is None:
            return [_with_comment(text, trailing)]
        first, *others = _at_mixins(line)
        if others and len(lead + joined(first)) <= WIDTH:
            return lay_out(first, depth) + [text for part in others for text in lay_out(part, depth + 1)]
    return _opened(line, depth)


def _at_mixins(line: Sequence[Piece]) -> list[Sequence[Piece]]:
    """The line divided before each `with` that stands outside of brackets."""
    cuts, depth = [0], 0
    for position, piece in enumerate(line):
        if piece.text == "with" and piece.kind == "name" and depth == 0 and position:
            cuts.append(position)
        depth += {"open": 1, "close": -1}.get(piece.kind, 0)
    return [line[start:end] for start, end in zip(cuts, [*cuts[1:], len(line)], strict=True)]


def _opened(line: Sequence[Piece], depth: int) -> list[str]:
    group = _first_group(line)
    if group is None:
        return _broken_at_comments(line, depth)
    start, end = group
    lines = _broken_at_comments(line[: start + 1], depth)
    for element in _elements(line[start + 1 : end]):
        lines += lay_out(element, depth + 1)
    return lines + lay_out(line[end:], depth)


def _broken_at_comments(line: Sequence[Piece], depth: int) -> list[str]:
    """A line comment ends its line; what follows goes on below."""
    lines: list[str] = []
    rest: list[Piece] = []
    for piece in line:
        if piece.kind != "line_comment":
            rest.append(piece)
            continue
        lines.append(_with_comment(INDENT * depth + joined(rest), [piece]))
        rest = []
    if rest:
        lines.append(INDENT * depth + joined(rest))
    return lines


def _with_comment(text: str, comment: Sequence[Piece]) -> str:
    if not comment:
        return text
    return f"{text}  {comment[0].text}" if text.strip() else text + comment[0].text


def _first_group(line: Sequence[Piece]) -> tuple[int, int] | None:
    """The first bracket that has something in it: the positions of its ends."""
    for start, piece in enumerate(line):
        if piece.text in _PAIRS and piece.kind == "open":
            end = _closing(line, start)
            if end > start + 1:
                return start, end
    return None


def _closing(line: Sequence[Piece], start: int) -> int:
    depth = 0
    for position in range(start, len(line)):
        if line[position].kind == "open":
            depth += 1
        elif line[position].kind == "close":
            depth -= 1
            if depth == 0:
                return position
    return len(line) - 1


def _elements(inner: Sequence[Piece]) -> list[list[Piece]]:
    """What stands between the commas, each with its comma and the comment behind it; own-line comments alone."""
    elements: list[list[Piece]] = [[]]
    depth = 0
    for piece in inner:
        behind_comma = not elements[-1] and len(elements) > 1
        if piece.kind == "line_comment" and depth == 0 and not elements[-1]:
            if behind_comma and not piece.gap:
                elements[-2].append(piece)
            else:
                elements[-1:] = [[piece], []]
            continue
        elements[-1].append(piece)
        depth += {"open": 1, "close": -1}.get(piece.kind, 0)
        if piece.text == "," and depth == 0:
            elements.append([])
    return [element for element in elements if element]


# ---- spaces ------------------------------------------------------------------------------------------------


def joined(line: Sequence[Piece]) -> str:
    """The pieces with the spaces that belong between them."""
    text = ""
    for position, piece in enumerate(line):
        before = line[position - 1] if position else None
        earlier = line[position - 2] if position > 1 else None
        if before is not None and _spaced(earlier, before, piece):
            text += " "
        text += piece.text
    return text


def _spaced(earlier: Piece | None, before: Piece, piece: Piece) -> bool:
    if before.is_comment or piece.is_comment:
        return before.kind != "open"
    if piece.kind == "mark" or before.text == ".":
        return False
    if before.kind == "open" and before.text != "{":
        return False
    if piece.kind == "close":
        return piece.text == "}" and before.text == "}"
    if piece.text in ("(", "["):
        is_function = before.text == "contains" and (earlier is None or not _is_operand(earlier))
        return not (_is_operand(before) or is_function)
    return not _is_sign(earlier, before)


def _is_operand(piece: Piece) -> bool:
    """Whether a bracket behind it is a call or an index."""
    if piece.kind == "name":
        return piece.text not in _WORD_OPERATORS
    return piece.kind in ("value", "string", "close")


def _is_sign(earlier: Piece | None, piece: Piece) -> bool:
    """Whether `-`, `+` or `!` stands before its operand alone."""
    if piece.text not in ("-", "+", "!"):
        return False
    return earlier is None or not _is_operand(earlier)


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
