"""How deep a text may nest, checked token by token: a parser keeps everything that is open in memory."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token

from afl.language.diagnostics import Diagnostic

MAX_OPEN = 256
"""Open brackets, braces and signs before an operand. Blocks and expressions have limits of their own, below this."""

_CHANGE = {"LPAR": 1, "LSQB": 1, "LBRACE": 1, "MAP_OPEN": 1, "RPAR": -1, "RSQB": -1, "RBRACE": -1}
_SIGN = "SIGN"


class TooDeep(Exception):
    """A text nests deeper than it may; `token` is the first that does."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self.token = token

    def diagnostic(self, source_id: str) -> Diagnostic:
        """The finding about it."""
        token = self.token
        return Diagnostic(
            f"This nests deeper than {MAX_OPEN} levels",
            token.line,
            token.column,
            "SYNTAX_TOO_DEEP",
            suggested_fix="split it into several steps or facets",
            source_id=source_id,
            end_column=token.end_column,
        )


class NestingLimit:
    """Stands between Lark's lexer and its parser."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The same tokens; TooDeep at the one that goes too far."""
        depth = signs = 0
        for token in stream:
            kind = token.type
            signs = signs + 1 if kind == _SIGN else 0
            depth += _CHANGE.get(kind, 0)
            if depth + signs > MAX_OPEN:
                raise TooDeep(token)
            yield token
