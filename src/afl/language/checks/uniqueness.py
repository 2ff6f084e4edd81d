"""Names that stand twice."""

from __future__ import annotations

from collections.abc import Iterable

from afl.language.ast.declarations import SchemaDecl
from afl.language.ast.expressions import MixinSig
from afl.language.ast.node import ASTNode
from afl.language.checks.context import Context
from afl.language.names import EVENT_FACET, FACET, SCHEMA, WORKFLOW, Symbol


def check_program(context: Context) -> None:
    """Declarations per namespace, fields per schema, implicits per namespace."""
    order = {kind: number for number, kind in enumerate((FACET, EVENT_FACET, WORKFLOW, SCHEMA))}
    first: dict[str, Symbol] = {}
    for symbol in sorted(context.names.symbols, key=lambda one: order[one.kind]):
        previous = first.setdefault(symbol.full_name, symbol)
        if previous is not symbol:
            _report(context, symbol.kind, symbol.name, symbol.node, previous.node)
        if isinstance(symbol.node, SchemaDecl):
            check(context, "schema field", ((field.name, field) for field in symbol.node.fields))
    implicits: dict[str, list[tuple[str, ASTNode]]] = {}
    for namespace, implicit in context.implicits():
        implicits.setdefault(namespace, []).append((implicit.name, implicit))
    for members in implicits.values():
        check(context, "implicit", members)


def check(context: Context, kind: str, named: Iterable[tuple[str, ASTNode]]) -> None:
    """Report every name that was there before."""
    seen: dict[str, ASTNode] = {}
    for name, node in named:
        if name in seen:
            _report(context, kind, name, node, seen[name])
        else:
            seen[name] = node


def _report(context: Context, kind: str, name: str, node: ASTNode, previous: ASTNode) -> None:
    line = previous.location.line if previous.location is not None else None
    message = f"Duplicate {kind} name '{name}' (previously defined at line {line})"
    context.error(node, "DUPLICATE_NAME", message)


def check_aliases(context: Context, mixins: Iterable[MixinSig], taken: Iterable[str]) -> None:
    """An alias is read like a parameter, so it may not be called like one."""
    used = set(taken)
    for mixin in mixins:
        if mixin.alias is None:
            continue
        if mixin.alias in used:
            message = f"Mixin alias '{mixin.alias}' conflicts with a parameter, return or other alias"
            context.error(mixin, "MIXIN_ALIAS_NAME_CONFLICT", message)
        used.add(mixin.alias)
