"""Logical lines of a text for the formatter: its tokens and comments, the nodes that begin a line, and the lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from afl.language.ast.blocks import Block, Body, CatchClause, StepStmt, WhenBlock, clauses
from afl.language.ast.declarations import FacetLike, Namespace, Program
from afl.language.ast.node import ASTNode

_TOKEN = re.compile(
    r"""
      (?P<line_comment>//[^\n]*)
    | (?P<block_comment>/\*(?:[^*]|\*(?!/))*\*/)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
    | (?P<value>\$(?:\.\w+)+|\d+\.\d+(?:[eE][+-]?\d+)?|\d+)
    | (?P<operator>=>|\+\+|\|\||&&|==|!=|>=|<=|[-+*/%<>!=?])
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
    questions = [0]  # conditional expressions whose ':' is still to come, in each open bracket
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "open":
            questions.append(0)
        elif kind == "close" and len(questions) > 1:
            questions.pop()
        elif match[0] == "?":
            questions[-1] += 1
        elif match[0] == ":" and questions[-1]:
            questions[-1] -= 1
            kind = "operator"
        gap = text.count("\n", end, match.start())
        if gap:
            line += gap
            line_start = text.rfind("\n", 0, match.start()) + 1
        found = match[0].rstrip() if match.lastgroup == "line_comment" else match[0]
        yield Piece(kind, found, line, match.start() - line_start + 1, gap)
        inner = match[0].count("\n")
        if inner:
            line += inner
            line_start = text.rfind("\n", 0, match.end()) + 1
        end = match.end()


@dataclass(frozen=True)
class Starts:
    """Places (line, column) where lines begin, and which of them begin a declaration."""

    lines: frozenset[tuple[int, int]]
    declarations: frozenset[tuple[int, int]]


def starts_of(program: Program) -> Starts:
    declarations = _places(_declarations(program))
    return Starts(declarations | _places(_members(program)), declarations)


def _places(nodes: Iterator[ASTNode]) -> frozenset[tuple[int, int]]:
    return frozenset((node.location.line, node.location.column) for node in nodes if node.location)


def _declarations(owner: Program | Namespace) -> Iterator[ASTNode]:
    yield from owner.facets
    yield from owner.event_facets
    yield from owner.workflows
    yield from owner.implicits
    yield from owner.schemas
    for namespace in owner.namespaces if isinstance(owner, Program) else ():
        yield namespace
        yield from _declarations(namespace)


def _members(owner: Program | Namespace) -> Iterator[ASTNode]:
    for schema in owner.schemas:
        yield from schema.fields
    facets: list[FacetLike] = [*owner.facets, *owner.event_facets, *owner.workflows]
    for facet in facets:
        yield from _of_body(facet.body, facet.catch)
    if isinstance(owner, Namespace):
        yield from owner.uses
    else:
        for namespace in owner.namespaces:
            yield from _members(namespace)


def _of_body(body: Body, catch: CatchClause | None) -> Iterator[ASTNode]:
    for part in clauses(body):
        yield from _of_block(part.block)
        yield from _of_cases(part.when)
    if catch is not None:
        yield from _of_cases(catch.when)
        if catch.block is not None:
            yield from _of_block(catch.block)


def _of_block(block: Block) -> Iterator[ASTNode]:
    for statement in block.steps:
        yield statement
        if isinstance(statement, StepStmt):
            yield from _of_body(statement.body, statement.catch)
    yield from block.yield_stmts


def _of_cases(when: WhenBlock | None) -> Iterator[ASTNode]:
    for case in when.cases if when is not None else ():
        yield case
        yield from _of_block(case.block)


@dataclass
class Line:
    """One statement, brace or comment, with its depth and whether a blank line stands before it."""

    depth: int
    blank: bool
    pieces: list[Piece] = field(default_factory=list)

    @property
    def opens(self) -> bool:
        return any(piece.text == "{" for piece in self._code()[-1:])

    @property
    def closes(self) -> bool:
        code = self._code()
        return any(piece.text == "}" for piece in (*code[:1], *code[-1:]))

    def _code(self) -> list[Piece]:
        return [piece for piece in self.pieces if not piece.is_comment]


class LineBuilder:
    """Divides the pieces of a text into lines."""

    def __init__(self, found: Sequence[Piece], starts: Starts) -> None:
        self._pieces = found
        self._starts = starts
        self._begins = self._beginnings()
        self._next = self._next_tokens()

    def lines(self) -> list[Line]:
        lines: list[Line] = []
        depth = 0
        for number, piece in enumerate(self._pieces):
            closing = self._begins[number] and piece.text == "}"
            if self._is_new(number, lines):
                blank = (
                    not closing
                    and bool(lines)
                    and not lines[-1].opens
                    and self._is_separated(number, lines[-1])
                )
                lines.append(Line(depth - closing, blank))
            lines[-1].pieces.append(piece)
            depth += self._change(number)
        return lines

    def _is_new(self, number: int, lines: list[Line]) -> bool:
        piece = self._pieces[number]
        if not lines:
            return True
        if not piece.is_comment:
            # A comment that has a line to itself ends it.
            return self._begins[number] or all(one.is_comment for one in lines[-1].pieces)
        after = self._next[number]
        if after is None or not self._begins[after]:
            return after is None and piece.gap > 0
        documents = piece.text.startswith("/**") and self._place(after) in self._starts.declarations
        return piece.gap > 0 or documents

    def _is_separated(self, number: int, previous: Line) -> bool:
        """A blank line is kept, and set between a closed block and the next declaration."""
        piece = self._pieces[number]
        if piece.gap > 1:
            return True
        after = self._next[number] if piece.is_comment else number
        return previous.closes and after is not None and self._place(after) in self._starts.declarations

    def _place(self, number: int) -> tuple[int, int]:
        return self._pieces[number].line, self._pieces[number].column

    # ---- what is known beforehand

    def _next_tokens(self) -> list[int | None]:
        """For every piece, the position of the next one that is no comment."""
        following: list[int | None] = [None] * len(self._pieces)
        after: int | None = None
        for number in range(len(self._pieces) - 1, -1, -1):
            following[number] = after
            if not self._pieces[number].is_comment:
                after = number
        return following

    def _beginnings(self) -> list[bool]:
        """For every piece, whether it begins a line: a node of the program, a directive, a brace of a block."""
        begins: list[bool] = []
        owners: list[str] = []
        for number, piece in enumerate(self._pieces):
            before = self._pieces[number - 1] if number else None
            begins.append(self._is_beginning(piece, number, before, owners))
            if piece.kind == "open":
                owners.append("prompt" if before is not None and before.text == "prompt" else piece.text)
            elif piece.kind == "close":
                owners.pop()
        return begins

    def _is_beginning(self, piece: Piece, number: int, before: Piece | None, owners: list[str]) -> bool:
        if piece.is_comment:
            return False
        if piece.text == "}":
            is_block = owners[-1] in ("{", "prompt")
            return is_block and not (before is not None and before.text == "{")
        if owners and owners[-1] == "prompt" and piece.kind == "name":
            return True
        # A yield of a mixin is a node of its own but stands in the line of its yield.
        return self._place(number) in self._starts.lines and piece.text != "with"

    def _change(self, number: int) -> int:
        piece = self._pieces[number]
        if piece.text == "{":
            return 1
        if piece.text != "}":
            return 0
        before = self._pieces[number - 1]
        return -1 if self._begins[number] or before.text == "{" else 0


def needed(found: Sequence[Piece]) -> Iterator[Piece]:
    """All but semicolons, commas between schema fields, and trailing commas."""
    owners: list[str] = []
    tokens = [piece for piece in found if not piece.is_comment]
    following = {id(piece): after for piece, after in pairwise(tokens)}
    before = ("", "")
    for piece in found:
        if piece.kind == "open":
            owners.append(before[0] if piece.text == "{" else "")
        elif piece.kind == "close":
            owners.pop()
        if not piece.is_comment:
            after = following.get(id(piece))
            in_schema = bool(owners) and owners[-1] == "schema"
            trailing = after is not None and after.kind == "close"
            if piece.text == ";" or (piece.text == "," and (in_schema or trailing)):
                continue
            before = (before[1], piece.text)
        yield piece
