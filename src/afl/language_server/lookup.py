"""What stands at a place of a source: the declaration it names, where that is, and what to tell about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from afl.language.ast.blocks import AndThenBlock, Block, CatchClause, ForeachClause, RepeatClause, StepStmt
from afl.language.ast.declarations import (
    DocComment,
    EventFacetDecl,
    FacetDecl,
    Namespace,
    Parameter,
    SchemaDecl,
    TypeRef,
    WorkflowDecl,
)
from afl.language.ast.expressions import (
    CallExpr,
    Comprehension,
    FunctionExpr,
    MixinCall,
    MixinSig,
    NamedArg,
    Reference,
)
from afl.language.ast.node import ASTNode, SourceLocation
from afl.language.functions import FUNCTIONS
from afl.language.names import CALLABLE, FACETS, PRELUDE_SOURCE, Symbol, prelude_text
from afl.language.types import BUILTINS
from afl.language_server.analysis import Analysis, children, walk

Binder: TypeAlias = StepStmt | ForeachClause | RepeatClause | Comprehension


@dataclass(frozen=True)
class Meaning:
    """What a name at a place means. `location` is None for what the language has built in."""

    markdown: str
    location: SourceLocation | None = None


@dataclass(frozen=True)
class Place:
    """A place in a source, with the nodes around it, the innermost last."""

    analysis: Analysis
    path: tuple[ASTNode, ...]

    @property
    def namespace(self) -> str:
        return next((each.name for each in self.path if isinstance(each, Namespace)), "")

    @property
    def declaration(self) -> ASTNode | None:
        """The facet or workflow around it."""
        kinds = FacetDecl | EventFacetDecl | WorkflowDecl
        return next((each for each in self.path if isinstance(each, kinds)), None)

    def callee(self, call: CallExpr | MixinCall | MixinSig) -> Symbol | None:
        kinds = CALLABLE if isinstance(call, CallExpr) else FACETS
        names = self.analysis.names
        return names.symbol(call.name, self.namespace, kinds) if names is not None else None

    def inputs(self) -> list[Parameter]:
        """What `$` has: the parameters of the declaration, or of the step whose block this is."""
        for outer, inner in reversed(list(zip(self.path, self.path[1:], strict=False))):
            if isinstance(outer, StepStmt) and isinstance(inner, AndThenBlock | CatchClause):
                symbol = self.callee(outer.call)
                return symbol.params if symbol is not None else []
            if isinstance(outer, FacetDecl | EventFacetDecl | WorkflowDecl):
                return outer.sig.params
        return []

    def steps(self) -> dict[str, Binder]:
        """The steps and variables of the declaration; of several with one name, the innermost that is seen here."""
        found: dict[str, Binder] = {}
        if self.declaration is not None:
            for node in walk(self.declaration):
                if isinstance(node, StepStmt):
                    found.setdefault(node.name, node)
                elif isinstance(node, ForeachClause | RepeatClause):
                    found.setdefault(node.variable, node)
        return found | dict(self._visible())

    def _visible(self) -> Iterator[tuple[str, Binder]]:
        """The steps and variables of the blocks around the place, the innermost last."""
        for outer, inner in zip(self.path, [*self.path[1:], None], strict=True):
            match outer:
                case Block():
                    yield from ((each.name, each) for each in outer.steps if isinstance(each, StepStmt))
                case AndThenBlock(foreach=ForeachClause() as clause) if inner is outer.block:
                    yield clause.variable, clause
                case AndThenBlock(repeat=RepeatClause() as clause) if inner is outer.block:
                    yield clause.variable, clause
                case RepeatClause() if inner is outer.until:
                    yield outer.variable, outer
                case Comprehension() if inner is not outer.iterable:
                    yield outer.variable, outer

    def results(self, step: str) -> list[Parameter]:
        """What a step returns."""
        node = self.steps().get(step)
        symbol = self.callee(node.call) if isinstance(node, StepStmt) else None
        return (symbol.returns or []) if symbol is not None else []


def place_at(analysis: Analysis, line: int, column: int) -> Place:
    """Lines and columns as the compiler counts them: from 1."""
    path: list[ASTNode] = []
    node: ASTNode | None = analysis.ast
    while node is not None:
        path.append(node)
        node = next((each for each in children(node) if _leads_to(each, line, column)), None)
    return Place(analysis, tuple(path))


def meaning_at(analysis: Analysis, line: int, column: int) -> Meaning | None:
    """What the name at a place means; None where no name stands, or one that means nothing."""
    place = place_at(analysis, line, column)
    node = place.path[-1] if place.path else None
    owner = place.path[-2] if len(place.path) > 1 else None
    match node:
        case CallExpr() | MixinCall() | MixinSig():
            return _symbol(analysis, place.callee(node))
        case TypeRef() if node.name in BUILTINS:
            return Meaning(_code(node.name))
        case TypeRef() if analysis.names is not None:
            return _symbol(analysis, analysis.names.type_symbol(node.name, place.namespace))
        case FunctionExpr() if node.name in FUNCTIONS:
            function = FUNCTIONS[node.name]
            return Meaning(f"{_code(function.signature)}\n\n{function.summary}")
        case Reference():
            return _reference(place, node)
        case NamedArg() if isinstance(owner, CallExpr | MixinCall | MixinSig):
            symbol = place.callee(owner)
            return _parameter(analysis, symbol.params, node.name, symbol) if symbol is not None else None
    return None


def _reference(place: Place, node: Reference) -> Meaning | None:
    if node.is_input:
        return _parameter(place.analysis, place.inputs(), node.path[0])
    step = place.steps().get(node.path[0])
    if step is None or step.location is None:
        return None
    returned = [each for each in place.results(node.path[0]) if each.name in node.path[1:2]]
    told = _text(place.analysis, returned[0].location) if returned else node.path[0]
    shown = _text(place.analysis, step.call.location if isinstance(step, StepStmt) else step.location)
    return Meaning(_code(told) + "\n\n" + _code(shown), step.location)


def _symbol(analysis: Analysis, symbol: Symbol | None) -> Meaning | None:
    return Meaning(describe(analysis, symbol), _target(symbol)) if symbol is not None else None


def describe(analysis: Analysis, symbol: Symbol) -> str:
    """A declaration's head and its doc comment."""
    if isinstance(symbol.node, SchemaDecl):
        return _described(_text(analysis, symbol.node.location), symbol.node.doc)
    return _described(f"{symbol.kind} {_text(analysis, symbol.node.sig.location)}", symbol.node.doc)


def _described(head: str, doc: DocComment | None) -> str:
    lines = [_code(head)]
    if doc is not None:
        lines += [
            doc.description,
            *(f"- `{each.name}` {each.description}" for each in doc.params + doc.returns),
        ]
    return "\n\n".join(each for each in lines if each)


def _parameter(
    analysis: Analysis, params: list[Parameter], name: str, owner: Symbol | None = None
) -> Meaning | None:
    for each in params:
        if each.name == name:
            location = None if owner is not None and owner.is_built_in else each.location
            return Meaning(_code(_text(analysis, each.location)), location)
    return None


def _target(symbol: Symbol) -> SourceLocation | None:
    if symbol.is_built_in:
        return None
    return symbol.node.location if isinstance(symbol.node, SchemaDecl) else symbol.node.sig.location


def _text(analysis: Analysis, location: SourceLocation | None) -> str:
    """The piece of a source that a node was made of."""
    if location is None:
        return ""
    source = location.source_id or ""
    text = prelude_text() if source == PRELUDE_SOURCE else analysis.texts[source]
    lines = text.split("\n")[location.line - 1 : location.end_line]
    lines[-1] = lines[-1][: (location.end_column or 1) - 1]
    return "\n".join([lines[0][location.column - 1 :], *lines[1:]])


def _code(text: str) -> str:
    return f"```afl\n{text}\n```"


def is_within(outer: ASTNode, inner: ASTNode) -> bool:
    """Whether a node stands inside another one of the same source."""
    at = inner.location
    return at is not None and _contains(outer, at.line, at.column)


def _leads_to(node: ASTNode, line: int, column: int) -> bool:
    """Whether a node or, as the condition of a repeat does behind its block, something of it stands there."""
    behind = isinstance(node, RepeatClause) and _contains(node.until, line, column)
    return behind or _contains(node, line, column)


def _contains(node: ASTNode, line: int, column: int) -> bool:
    at = node.location
    if at is None:
        return False
    return (at.line, at.column) <= (line, column) <= (at.end_line or at.line, at.end_column or at.column)
