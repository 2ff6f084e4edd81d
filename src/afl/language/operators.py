"""Binary operators: their precedence, and folding a flat run of operands into a tree.

The grammar yields `[a, op, b, op, c]`; a table of precedence spares the parser a reduction per level and atom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afl.language.ast.expressions import BinaryExpr, ConcatExpr, Expression
from afl.language.ast.node import SourceLocation

OR, AND, COMPARISON, CONCAT, SUM, PRODUCT = range(1, 7)

PRECEDENCE = {
    "||": OR,
    "&&": AND,
    **dict.fromkeys(("==", "!=", ">", "<", ">=", "<="), COMPARISON),
    **dict.fromkeys(("in", "not in", "contains", "startsWith", "endsWith"), COMPARISON),
    "++": CONCAT,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "%": PRODUCT,
}


def spelling(operator: str) -> str:
    """The canonical form of an operator token; only `not in` may be spread over white space."""
    return " ".join(operator.split())


def fold(run: list[Any], chained: Callable[[Any], None]) -> Expression:
    """The tree of `[operand, operator, operand, ...]`; `chained` hears of a second comparison in a row."""
    operands: list[Expression] = [run[0]]
    pending: list[tuple[str, int]] = []
    concats: set[int] = set()
    for token, operand in zip(run[1::2], run[2::2], strict=True):
        operator = spelling(token)
        level = PRECEDENCE[operator]
        while pending and pending[-1][1] >= level:
            if level == pending[-1][1] == COMPARISON:
                chained(token)
            _apply(operands, pending.pop()[0], concats)
        pending.append((operator, level))
        operands.append(operand)
    while pending:
        _apply(operands, pending.pop()[0], concats)
    return operands[0]


def _apply(operands: list[Expression], operator: str, concats: set[int]) -> None:
    """Combine the last two operands; a `++` joins the concatenation of this run instead of nesting in it."""
    right = operands.pop()
    left = operands.pop()
    where = _between(left.location, right.location)
    if operator != "++":
        operands.append(BinaryExpr(operator, left, right, location=where))
    elif isinstance(left, ConcatExpr) and id(left) in concats:
        left.operands.append(right)
        left.location = where
        operands.append(left)
    else:
        joined = ConcatExpr([left, right], location=where)
        concats.add(id(joined))
        operands.append(joined)


def _between(start: SourceLocation | None, end: SourceLocation | None) -> SourceLocation | None:
    if start is None or end is None:
        return None
    return SourceLocation(start.line, start.column, end.end_line, end.end_column, start.source_id)
