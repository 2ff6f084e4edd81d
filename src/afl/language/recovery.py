"""Continuing after a syntax error, so that one run reports all of them, and the limit of nesting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_analysis import Shift

from afl.language.diagnostics import Diagnostic
from afl.language.syntax_errors import END, syntax_error, value_stack

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


MAX_ERRORS = 50

_OPENING = ("LBRACE", "LPAR", "LSQB", "MAP_OPEN")
_CLOSING = ("RBRACE", "RPAR", "RSQB")

_LANDMARK = re.compile(
    r"""
      # Skipped: braces and keywords in here mean nothing. What is never closed goes on to the end of the text.
      "[^"\\]*+(?:\\.[^"\\]*+)*"? | //[^\n]* | /\*.*?(?:\*/|\Z)
    | (?P<brace>[{}])
    | (?<![\w.$]) (?P<start>
          (?P<namespace>namespace) \s+ [\w.]+ \s* \{
        | (?:facet|workflow|event(?:\s+facet)?) \s+ \w+ \s* \(
        | schema \s+ \w+ \s* \{
        | implicit \s+ \w+ \s* =
      )
    """,
    re.VERBOSE | re.DOTALL,
)


def all_syntax_errors(error: UnexpectedInput, text: str, source_id: str) -> list[Diagnostic]:
    """The given error and every later one."""
    found = [syntax_error(error, source_id, text)]
    current: UnexpectedInput | None = error
    while current is not None and len(found) < MAX_ERRORS:
        try:
            current = _next_error(current, text)
        except TooDeep as deep:
            return [*found, deep.diagnostic(source_id)]
        if current is not None and not _is_echo(current):
            found.append(syntax_error(current, source_id, text))
    return found


def _is_echo(error: UnexpectedInput) -> bool:
    """Between declarations, braces that no longer add up after a jump are no news."""
    if not isinstance(error, UnexpectedToken) or error.token.type not in (END, "RBRACE"):
        return False
    unfinished = value_stack(error)[_levels(error.interactive_parser)[-1] :]
    types = [item.type for item in unfinished if isinstance(item, Token)]
    return sum(name in _OPENING for name in types) <= sum(name in _CLOSING for name in types)


def _next_error(error: UnexpectedInput, text: str) -> UnexpectedInput | None:
    """Resume behind the broken declaration; None when the rest of the text is fine."""
    if isinstance(error, UnexpectedToken) and error.token.type == END:
        return None
    parser: Any = error.interactive_parser
    target = _resume_at(error, text, _levels(parser))
    if target is None:
        return None
    position, level = target
    del parser.parser_state.state_stack[level + 1 :]
    del parser.parser_state.value_stack[level:]
    _move(parser.lexer_thread.state, text, position)
    try:
        parser.resume_parse()
    except UnexpectedInput as later:
        return later
    return None


def _levels(parser: Any) -> list[int]:
    """Indices into the state stack where a declaration may begin: the top level, then an open namespace."""
    states = parser.parser_state.parse_conf.states
    stack = parser.parser_state.state_stack
    found = [n for n, state in enumerate(stack) if states[state].get("WORKFLOW", (None,))[0] is Shift]
    return found or [0]


def _resume_at(error: UnexpectedInput, text: str, levels: list[int]) -> tuple[int, int] | None:
    """The position of the next declaration and the level of the stack it belongs to."""
    inner = levels[-1]
    unfinished = value_stack(error)[inner:]
    depth = sum(_brace(item) for item in unfinished)
    in_namespace = len(levels) > 1
    for mark in _landmarks(error, text, unfinished, in_namespace):
        if mark["start"]:
            at_top = mark["namespace"] or not in_namespace
            return mark.start(), levels[0] if at_top else inner
        if mark["brace"]:
            depth += 1 if mark["brace"] == "{" else -1
            if depth < 0:
                in_namespace, depth = False, 0
    return None


def _brace(item: object) -> int:
    return 1 if isinstance(item, Token) and item.type in ("LBRACE", "MAP_OPEN") else 0


def _landmarks(
    error: UnexpectedInput, text: str, unfinished: list[Any], in_namespace: bool
) -> Iterator[re.Match[str]]:
    """Braces and beginnings of declarations, from the broken place on.

    The line of the error counts too, for `facet` is a fine argument value until the name that follows it.
    """
    position = error.pos_in_stream or 0
    begun = next((item.start_pos for item in unfinished if isinstance(item, Token)), None)
    if begun is not None:
        start = max(begun + 1, text.rfind("\n", 0, position) + 1)
        # Braces before the error were counted by the parser.
        return (m for m in _LANDMARK.finditer(text, start) if m["start"] or m.start() >= position)
    nested = in_namespace and text.startswith("namespace", position)
    return _LANDMARK.finditer(text, position if nested else position + 1)


def _move(lexer_state: Any, text: str, position: int) -> None:
    counter = lexer_state.line_ctr
    counter.char_pos = position
    counter.line = text.count("\n", 0, position) + 1
    counter.line_start_pos = text.rfind("\n", 0, position) + 1
    counter.column = position - counter.line_start_pos + 1
