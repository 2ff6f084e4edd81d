"""Rule methods for calls, steps, yields, blocks and the clauses that hold blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lark import Token

from afl.language.ast.blocks import (
    AndThenBlock,
    Block,
    CatchClause,
    ForeachClause,
    RepeatClause,
    Statement,
    StepStmt,
    SysAssertStmt,
    SysLogStmt,
    WhenBlock,
    WhenCase,
    YieldStmt,
    clauses,
)
from afl.language.ast.expressions import CallExpr, MixinCall, NamedArg, Reference
from afl.language.ast.node import ASTNode
from afl.language.builder.base import MAX_BLOCK_DEPTH, Children
from afl.language.builder.expressions import ExpressionBuilder


class StatementBuilder(ExpressionBuilder):
    """Statements and blocks."""

    # ---- calls

    def call(self, children: Children) -> CallExpr:
        name, _, args, closing = children
        return CallExpr(name.value, args, location=self.between(name, closing))

    def mixin(self, children: Children) -> MixinCall:
        name, args = children[1], children[3]
        alias = self.plain(children[6], "An alias") if len(children) > 5 else None
        return MixinCall(name.value, args, alias, location=self.span(children))

    def mixed(self, call: CallExpr, mixins: list[MixinCall]) -> CallExpr:
        """The call with its `with` clauses."""
        if mixins:
            call.mixins = mixins
            call.location = self.between(call, mixins[-1])
        return call

    # ---- statements

    def step(self, children: Children) -> StepStmt:
        name, _, call, mixins, bodies, catch, _ = children
        return StepStmt(
            self.plain(name, "A step name"),
            self.mixed(call, mixins),
            body_of(bodies),
            catch,
            location=self.span(children),
        )

    def call_statement(self, children: Children) -> Statement:
        """A call without a name: only `sys.log` and `sys.assert` are statements."""
        name, args, where = children[0], children[2], self.span(children)
        if name.value == "sys.assert":
            return self._assertion(name, args, where)
        if name.value != "sys.log":
            self.problem(
                name,
                f"The call of '{name}' has no step name",
                "SYNTAX_NAMELESS_CALL",
                f"write 'step_name = {name}(...)'",
            )
        return SysLogStmt(args, location=where)

    def _assertion(self, name: Token, args: list[NamedArg], where: object) -> SysAssertStmt:
        if len(args) != 1 or args[0].name:
            self.problem(
                name, "sys.assert takes one condition", "SYNTAX_ASSERT", "write 'sys.assert(a.n > 0)'"
            )
        condition = args[0].value if args else Reference([], True, location=self.at(name))
        return SysAssertStmt(condition, location=where)  # type: ignore[arg-type]

    def yield_stmt(self, children: Children) -> list[YieldStmt]:
        """`yield X(...) with M(...)` is one yield for X and one for M."""
        _, call, mixins, _ = children
        statements = [YieldStmt(call, location=self.span([children[0], call]))]
        for mixin in mixins:
            if mixin.alias is not None:
                self.problem(mixin, "A mixin of a yield has no alias", "SYNTAX_YIELD_ALIAS", "leave out 'as'")
            target = CallExpr(mixin.name, mixin.args, location=mixin.location)
            statements.append(YieldStmt(target, location=mixin.location))
        return statements

    def block(self, children: Children) -> Block:
        node = Block(children[1], children[2], location=self.between(children[0], children[3]))
        self.deepen(node, _inner_blocks(node), MAX_BLOCK_DEPTH)
        return node

    # ---- clauses

    def and_then(self, children: Children) -> AndThenBlock:
        return AndThenBlock(children[1], location=self.span(children))

    def and_then_foreach(self, children: Children) -> AndThenBlock:
        _, keyword, variable, _, iterable, limit, collect, block = children
        foreach = ForeachClause(
            self.plain(variable, "A foreach variable"),
            iterable,
            limit,
            self.plain(collect, "The return to collect failures in") if collect is not None else None,
            location=self.between(keyword, collect or limit or iterable),
        )
        return AndThenBlock(block, foreach, location=self.span(children))

    def limit(self, children: Children) -> Any:
        return children[1]

    def collect(self, children: Children) -> Any:
        return children[1]

    def and_then_repeat(self, children: Children) -> AndThenBlock:
        _, keyword, variable, limit, block, _, until = children
        repeat = RepeatClause(
            self.plain(variable, "A repeat variable"),
            until,
            limit,
            location=self.between(keyword, limit if limit is not None else variable),
        )
        return AndThenBlock(block, repeat=repeat, location=self.span(children))

    def and_then_when(self, children: Children) -> AndThenBlock:
        return AndThenBlock(Block(), None, children[2], location=self.span(children))

    def cases(self, children: Children) -> WhenBlock:
        return WhenBlock(children[1], location=self.between(children[0], children[2]))

    def case(self, children: Children) -> WhenCase:
        condition = children[1]
        if isinstance(condition, Reference) and condition.path == ["_"] and not condition.is_input:
            condition = None
        return WhenCase(condition, children[3], location=self.span(children))

    def catch_block(self, children: Children) -> CatchClause:
        return CatchClause(children[1], location=self.span(children))

    def catch_when(self, children: Children) -> CatchClause:
        return CatchClause(None, children[2], location=self.span(children))


def body_of(bodies: list[AndThenBlock]) -> AndThenBlock | list[AndThenBlock] | None:
    """One `andThen` stands for itself; several make a list."""
    if len(bodies) > 1:
        return bodies
    return bodies[0] if bodies else None


def _inner_blocks(block: Block) -> Iterator[ASTNode]:
    for statement in block.steps:
        if isinstance(statement, StepStmt):
            for clause in clauses(statement.body):
                yield clause.block
                yield from _case_blocks(clause.when)
            if statement.catch is not None:
                if statement.catch.block is not None:
                    yield statement.catch.block
                yield from _case_blocks(statement.catch.when)


def _case_blocks(when: WhenBlock | None) -> Iterator[ASTNode]:
    if when is not None:
        yield from (case.block for case in when.cases)
