"""What all rule methods share: lists, places, checks of names, notes of what the grammar cannot say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, TypeAlias

from lark import Token

from afl.language.ast.node import ASTNode, SourceLocation
from afl.language.diagnostics import Diagnostic

Children: TypeAlias = list[Any]

# Deeper trees would meet Python's recursion limit in whoever walks them.
MAX_EXPRESSION_DEPTH = 100
MAX_BLOCK_DEPTH = 32


class BaseBuilder:
    """The state of one parse, and the methods of the grammar's list rules."""

    def __init__(self) -> None:
        self.source_id: str | None = None
        self.problems: list[Diagnostic] = []
        self._depths: dict[int, int] = {}

    def begin(self, source_id: str) -> None:
        """Forget the last parse."""
        self.source_id = source_id
        self.problems = []
        self._depths = {}

    # The parser hands over a fresh list each time, so an empty or one-element list is already the result.
    only: Callable[[Children], Any] = staticmethod(itemgetter(0))

    @staticmethod
    def empty(children: Children) -> Children:
        return children

    @staticmethod
    def first(children: Children) -> Children:
        return children

    @staticmethod
    def nothing(children: Children) -> None:
        return None

    @staticmethod
    def push(children: Children) -> Any:
        children[0].append(children[1])
        return children[0]

    @staticmethod
    def push_last(children: Children) -> Any:
        children[0].append(children[2])
        return children[0]

    @staticmethod
    def extend(children: Children) -> Any:
        children[0].extend(children[1])
        return children[0]

    def at(self, token: Token) -> SourceLocation:
        """The place of one token."""
        return SourceLocation(token.line, token.column, token.end_line, token.end_column, self.source_id)  # type: ignore[arg-type]

    def span(self, children: Children) -> SourceLocation:
        """From the first child to the last that is not empty."""
        return self.between(children[0], _last(children))

    def between(self, first: Token | ASTNode, last: Token | ASTNode) -> SourceLocation:
        start: Any = first if isinstance(first, Token) else first.location
        end: Any = last if isinstance(last, Token) else last.location
        return SourceLocation(start.line, start.column, end.end_line, end.end_column, self.source_id)

    def problem(self, where: Token | ASTNode, message: str, rule_id: str, fix: str | None = None) -> None:
        location = self.at(where) if isinstance(where, Token) else where.location
        self.problems.append(Diagnostic.at(location, message, rule_id, fix=fix))

    def plain(self, token: Token, what: str) -> str:
        """The text of a name that may have no dots."""
        if "." in token:
            self.problem(token, f"{what} cannot contain dots: '{token}'", "SYNTAX_DOTTED_NAME")
        return str(token.value)

    def deepen(self, node: ASTNode, parts: Iterable[object], limit: int, added: int = 1) -> None:
        """Record how deep `node` nests; the one that crosses the limit is reported."""
        depth = added + max((self._depths.get(id(part), 0) for part in parts), default=0)
        self._depths[id(node)] = depth
        if depth > limit >= depth - added:
            self.problem(
                node,
                f"This nests deeper than {limit} levels",
                "SYNTAX_TOO_DEEP",
                "split it into several steps or facets",
            )


def _last(children: Children) -> Token | ASTNode:
    for child in reversed(children):
        if isinstance(child, list):
            if child:
                return _last(child)
        elif child is not None:
            return child  # type: ignore[no-any-return]
    raise IndexError("a rule without tokens has no place")
