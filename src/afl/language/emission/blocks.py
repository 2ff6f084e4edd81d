"""Calls, statements and blocks as the plain dicts of the compiled program; names become full names here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.language.ast.blocks import (
    AndThenBlock,
    Block,
    Body,
    CatchClause,
    ForeachClause,
    PromptBlock,
    RepeatClause,
    Statement,
    StepStmt,
    SysLogStmt,
    WhenBlock,
    WhenCase,
    YieldStmt,
)
from afl.language.ast.declarations import ArrayType, Parameter, TypeExpr
from afl.language.ast.expressions import CallExpr, MixinCall, MixinSig, NamedArg
from afl.language.ast.node import ASTNode
from afl.language.emission.expressions import ExpressionEmitter, Json, Locate, path_id
from afl.language.names import FACETS, Names, Symbol
from afl.language.yield_targets import YieldScope

LOG_MESSAGE = "message"
"""The name of a positional argument of `sys.log`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the emitter stands: the path that ids derive from, and what names mean there."""

    path: str
    namespace: str = ""
    yields: YieldScope | None = None

    def into(self, part: str) -> Place:
        return Place(f"{self.path}/{part}", self.namespace, self.yields)


class BlockEmitter:
    """Everything below a declaration."""

    def __init__(self, names: Names, locate: Locate) -> None:
        self.names = names
        self.expressions = ExpressionEmitter(locate)
        self.built_in: dict[str, Symbol] = {}  # what the program uses of namespace `sys`, but for policies
        self._locate = locate

    # ---- helpers

    def identified(self, data: Json, node: ASTNode, place: Place) -> Json:
        """The dict with its id, and its location last."""
        data["id"] = path_id(place.path)
        return self.located(data, node)

    def located(self, data: Json, node: ASTNode) -> Json:
        where = self._locate(node.location)
        if where is not None:
            data["location"] = where
        return data

    def type_name(self, node: TypeExpr, namespace: str) -> str | Json:
        if isinstance(node, ArrayType):
            return {"type": "ArrayType", "elementType": self.type_name(node.element_type, namespace)}
        symbol = self.names.type_symbol(node.name, namespace)
        return node.name if symbol is None else self._full_name(symbol)

    def _full_name(self, symbol: Symbol) -> str:
        if symbol.is_built_in:
            self.built_in[symbol.full_name] = symbol
        return symbol.full_name

    # ---- calls

    def arguments(self, args: Sequence[NamedArg], symbol: Symbol | None) -> list[Json]:
        """Arguments by name; a positional one takes the name of the first parameter."""
        return self._bound(args, symbol.params if symbol is not None else [])

    def _bound(self, args: Sequence[NamedArg], slots: Sequence[Parameter]) -> list[Json]:
        first = slots[0].name if slots else ""
        return [self.argument(arg, first) for arg in args]

    def argument(self, arg: NamedArg, first: str = "") -> Json:
        return {"name": arg.name or first, "value": self.expressions.convert(arg.value)}

    def mixin(self, node: MixinSig | MixinCall, place: Place) -> Json:
        symbol = self.names.symbol(node.name, place.namespace, FACETS)
        target = node.name if symbol is None or symbol.is_policy else self._full_name(symbol)
        data: Json = {"type": type(node).__name__, "target": target}
        if node.args:
            data["args"] = self.arguments(node.args, symbol)
        if node.alias is not None:
            data["alias"] = node.alias
        return data

    def call(self, node: CallExpr, place: Place) -> Json:
        symbol = self.names.symbol(node.name, place.namespace)
        target = self._full_name(symbol) if symbol is not None else node.name
        return self._call(node, place, target, symbol.params if symbol is not None else [])

    def _call(self, node: CallExpr, place: Place, target: str, slots: Sequence[Parameter]) -> Json:
        data: Json = {"type": "CallExpr", "target": target}
        if node.args:
            data["args"] = self._bound(node.args, slots)
        if node.mixins:
            data["mixins"] = [self.mixin(mixin, place) for mixin in node.mixins]
        return self.identified(data, node, place)

    # ---- statements

    def statement(self, node: Statement, place: Place) -> Json:
        if isinstance(node, StepStmt):
            return self.step(node, place)
        if isinstance(node, SysLogStmt):
            data: Json = {"type": "SysLogStmt"}
            if node.args:
                data["args"] = [self.argument(arg, LOG_MESSAGE) for arg in node.args]
        else:
            data = {"type": "SysAssertStmt", "condition": self.expressions.convert(node.condition)}
        return self.identified(data, node, place)

    def step(self, node: StepStmt, place: Place) -> Json:
        data: Json = {"type": "StepStmt", "name": node.name, "call": self.call(node.call, place.into("call"))}
        if node.body is not None or node.catch is not None:
            called = self.names.symbol(node.call.name, place.namespace)
            yields = YieldScope(called, self.names, place.yields) if called is not None else place.yields
            self.add_body(data, node.body, node.catch, Place(place.path, place.namespace, yields))
        return self.identified(data, node, place)

    def yield_(self, node: YieldStmt, place: Place) -> Json:
        target = place.yields.find(node.call.name) if place.yields is not None else None
        inner = place.into("call")
        if target is None:
            call = self.call(node.call, inner)
        else:
            call = self._call(node.call, inner, target.full_name, target.values())
        return self.identified({"type": "YieldStmt", "call": call}, node, place)

    # ---- blocks

    def add_body(self, data: Json, body: Body, catch: CatchClause | None, place: Place) -> None:
        if isinstance(body, PromptBlock):
            data["body"] = self.prompt(body)
        elif isinstance(body, list):
            data["body"] = [self.and_then(one, place.into(f"block-{n}")) for n, one in enumerate(body)]
        elif body is not None:
            data["body"] = self.and_then(body, place.into("block-0"))
        if catch is not None:
            data["catch"] = self.catch(catch, place.into("catch"))

    def and_then(self, node: AndThenBlock, place: Place) -> Json:
        data: Json = {"type": "AndThenBlock"}
        if node.foreach is not None:
            data["foreach"] = self.foreach(node.foreach)
        if node.repeat is not None:
            data["repeat"] = self.repeat(node.repeat)
        if node.when is not None:
            data["when"] = self.when(node.when, place)
        self.add_block(data, node.block, place)
        return self.identified(data, node, place)

    def add_block(self, data: Json, block: Block, place: Place) -> None:
        if block.steps:
            data["steps"] = [
                self.statement(
                    one, place.into(f"step-{one.name}" if isinstance(one, StepStmt) else f"sys-{n}")
                )
                for n, one in enumerate(block.steps)
            ]
        yields = [self.yield_(one, place.into(f"yield-{n}")) for n, one in enumerate(block.yield_stmts)]
        if len(yields) == 1:
            data["yield"] = yields[0]
        elif yields:
            data["yields"] = yields

    def foreach(self, node: ForeachClause) -> Json:
        iterable = self.expressions.convert(node.iterable)
        data: Json = {"type": "ForeachClause", "variable": node.variable, "iterable": iterable}
        if node.limit is not None:
            data["limit"] = self.expressions.convert(node.limit)
        if node.collect is not None:
            data["collect"] = node.collect
        return data

    def repeat(self, node: RepeatClause) -> Json:
        data: Json = {"type": "RepeatClause", "variable": node.variable}
        if node.limit is not None:
            data["limit"] = self.expressions.convert(node.limit)
        data["until"] = self.expressions.convert(node.until)
        return data

    def when(self, node: WhenBlock, place: Place) -> Json:
        cases = [self.when_case(case, place.into(f"case-{n}")) for n, case in enumerate(node.cases)]
        return {"type": "WhenBlock", "cases": cases}

    def when_case(self, node: WhenCase, place: Place) -> Json:
        data: Json = {"type": "WhenCase"}
        if node.condition is None:
            data["default"] = True
        else:
            data["condition"] = self.expressions.convert(node.condition)
        self.add_block(data, node.block, place)
        return self.located(data, node)

    def catch(self, node: CatchClause, place: Place) -> Json:
        data: Json = {"type": "CatchClause"}
        if node.when is not None:
            data["when"] = self.when(node.when, place)
        if node.block is not None:
            self.add_block(data, node.block, place)
        return self.identified(data, node, place)

    @staticmethod
    def prompt(node: PromptBlock) -> Json:
        data: Json = {"type": "PromptBlock"}
        for name in ("system", "template", "model"):
            if (text := getattr(node, name)) is not None:
                data[name] = text
        return data
