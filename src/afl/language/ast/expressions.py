"""Expressions, and the calls that take them as arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from afl.language.ast.node import ASTNode


@dataclass
class Literal(ASTNode):
    """A constant; `kind` is string, integer, double, boolean or null."""

    value: str | int | float | bool | None
    kind: str


@dataclass
class Reference(ASTNode):
    """`$.a.b` (is_input) or `step.attribute`; the path has no `$`."""

    path: list[str]
    is_input: bool


@dataclass
class ConcatExpr(ASTNode):
    """`a ++ b ++ c`, one flat node."""

    operands: list[Expression]


@dataclass
class BinaryExpr(ASTNode):
    """Arithmetic, comparison or boolean operator, by its spelling."""

    operator: str
    left: Expression
    right: Expression


@dataclass
class UnaryExpr(ASTNode):
    """`-x` or `!x`."""

    operator: str
    operand: Expression


@dataclass
class IndexExpr(ASTNode):
    """`target[index]`; `target[0].name` is an index by the text "name"."""

    target: Expression
    index: Expression


@dataclass
class ArrayLiteral(ASTNode):
    """`[a, b]`."""

    elements: list[Expression] = field(default_factory=list)


@dataclass
class MapEntry(ASTNode):
    """One `key: value` of a map literal."""

    key: str
    value: Expression


@dataclass
class MapLiteral(ASTNode):
    """`#{key: value}`."""

    entries: list[MapEntry] = field(default_factory=list)


@dataclass
class ConditionalExpr(ASTNode):
    """`condition ? then : otherwise`; only one of the two is evaluated."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass
class FunctionExpr(ASTNode):
    """`len(x)`: a function of the language."""

    name: str
    args: list[Expression] = field(default_factory=list)


@dataclass
class Comprehension(ASTNode):
    """`[element for variable in iterable if condition]`."""

    element: Expression
    variable: str
    iterable: Expression
    condition: Expression | None = None


Expression: TypeAlias = (
    Literal
    | Reference
    | ConcatExpr
    | BinaryExpr
    | UnaryExpr
    | IndexExpr
    | ArrayLiteral
    | MapLiteral
    | ConditionalExpr
    | FunctionExpr
    | Comprehension
)


@dataclass
class NamedArg(ASTNode):
    """One argument. An empty name marks a positional one, which binds to the first parameter."""

    name: str
    value: Expression


@dataclass
class MixinSig(ASTNode):
    """`with M(...)` of a signature."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    alias: str | None = None


@dataclass
class MixinCall(ASTNode):
    """`with M(...)` of a call."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    alias: str | None = None


@dataclass
class CallExpr(ASTNode):
    """A facet, workflow or schema with arguments."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    mixins: list[MixinCall] = field(default_factory=list)
