"""Statements, and the blocks they stand in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from afl.language.ast.expressions import CallExpr, Expression, NamedArg
from afl.language.ast.node import ASTNode


@dataclass
class StepStmt(ASTNode):
    """`name = Call(...)`, with inline bodies and a catch."""

    name: str
    call: CallExpr
    body: AndThenBlock | list[AndThenBlock] | None = None
    catch: CatchClause | None = None


@dataclass
class SysLogStmt(ASTNode):
    """`sys.log(a = ..., b = ...)`."""

    args: list[NamedArg] = field(default_factory=list)


@dataclass
class SysAssertStmt(ASTNode):
    """`sys.assert(condition)`."""

    condition: Expression


@dataclass
class YieldStmt(ASTNode):
    """`yield Target(...)`."""

    call: CallExpr


Statement: TypeAlias = StepStmt | SysLogStmt | SysAssertStmt


@dataclass
class Block(ASTNode):
    """Statements, then yields."""

    steps: list[Statement] = field(default_factory=list)
    yield_stmts: list[YieldStmt] = field(default_factory=list)

    @property
    def yield_stmt(self) -> YieldStmt | None:
        """The first yield, if there is one."""
        return self.yield_stmts[0] if self.yield_stmts else None


@dataclass
class ForeachClause(ASTNode):
    """`foreach variable in iterable limit n collect name`; the last two may be left out."""

    variable: str
    iterable: Expression
    limit: Expression | None = None
    collect: str | None = None


@dataclass
class RepeatClause(ASTNode):
    """`repeat variable limit ... { ... } until condition`; the block is the clause's."""

    variable: str
    until: Expression
    limit: Expression | None = None


@dataclass
class WhenCase(ASTNode):
    """`case condition => { ... }`; no condition means the default `case _`."""

    condition: Expression | None
    block: Block

    @property
    def is_default(self) -> bool:
        return self.condition is None


@dataclass
class WhenBlock(ASTNode):
    """The cases of a `when`."""

    cases: list[WhenCase] = field(default_factory=list)


@dataclass
class CatchClause(ASTNode):
    """`catch { ... }` or `catch when { ... }`."""

    block: Block | None = None
    when: WhenBlock | None = None


@dataclass
class AndThenBlock(ASTNode):
    """One `andThen`: a block, one per element (`foreach`), one that is repeated, or cases (the block is then empty)."""

    block: Block
    foreach: ForeachClause | None = None
    when: WhenBlock | None = None
    repeat: RepeatClause | None = None


@dataclass
class PromptBlock(ASTNode):
    """What a model is asked when it handles the event facet."""

    system: str | None = None
    template: str | None = None
    model: str | None = None


Body: TypeAlias = AndThenBlock | list[AndThenBlock] | PromptBlock | None


def clauses(body: Body) -> list[AndThenBlock]:
    """The `andThen` blocks of a body, whichever form it has."""
    if isinstance(body, AndThenBlock):
        return [body]
    return body if isinstance(body, list) else []
