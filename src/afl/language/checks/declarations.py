"""Declarations: unique names, signatures, types, defaults, prompts, implicits and imports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from afl.kernel.near_names import some
from afl.language.ast.blocks import PromptBlock, StepStmt, clauses
from afl.language.ast.declarations import ArrayType, ImplicitDecl, Namespace, Parameter, SchemaDecl, TypeExpr
from afl.language.ast.node import ASTNode
from afl.language.checks.blocks import CAUGHT, Blocks
from afl.language.checks.calls import Receiver, check_aliases
from afl.language.checks.context import Context
from afl.language.checks.scopes import Scope
from afl.language.names import EVENT_FACET, FACET, FACETS, PRELUDE_NAMESPACE, SCHEMA, WORKFLOW, Symbol
from afl.language.types import BUILTINS, Type, assignable
from afl.language.yield_targets import YieldScope


def check_unique_names(context: Context) -> None:
    """Declarations per namespace, fields per schema, implicits per namespace."""
    order = {kind: number for number, kind in enumerate((FACET, EVENT_FACET, WORKFLOW, SCHEMA))}
    first: dict[str, Symbol] = {}
    for symbol in sorted(context.names.symbols, key=lambda one: order[one.kind]):
        previous = first.setdefault(symbol.full_name, symbol)
        if previous is not symbol:
            _report(context, symbol.kind, symbol.name, symbol.node, previous.node)
        if isinstance(symbol.node, SchemaDecl):
            check_unique(context, "schema field", ((field.name, field) for field in symbol.node.fields))
    implicits: dict[str, list[tuple[str, ASTNode]]] = {}
    for namespace, implicit in context.implicits():
        implicits.setdefault(namespace, []).append((implicit.name, implicit))
    for members in implicits.values():
        check_unique(context, "implicit", members)


def check_unique(context: Context, kind: str, named: Iterable[tuple[str, ASTNode]]) -> None:
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


_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)(?:\.[A-Za-z0-9_.]*)?\}")


# What other languages call a type, in small letters, and what to write.
_TYPES_ELSEWHERE = {
    **dict.fromkeys(("str", "text"), "write 'String'"),
    **dict.fromkeys(("float", "number", "decimal"), "write 'Double', or 'Long' for whole numbers"),
    **dict.fromkeys(("object", "dict", "record"), "write 'Map', or declare a schema"),
    **dict.fromkeys(("list", "array"), "a list of String is written '[String]'"),
    **dict.fromkeys(("date", "datetime", "time", "timestamp"), "write 'String' for an ISO time"),
    "bool": "write 'Boolean'",
    "json": "write 'Json'",
}


class Declarations:
    """Checks one declaration after the other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._blocks = Blocks(context)

    # ---- namespaces

    def check_namespace(self, block: Namespace) -> None:
        if block.name == PRELUDE_NAMESPACE:
            message = f"Namespace '{block.name}' is built in and cannot be extended"
            self._context.error(block, "NAMESPACE_RESERVED", message, "choose another name")
        for uses in block.uses:
            if uses.name not in self._context.names.namespaces:
                message = f"Invalid use statement: namespace '{uses.name}' does not exist"
                fix = self._context.suggest(uses.name, lambda: self._context.names.namespaces)
                self._context.error(uses, "USE_UNKNOWN_NAMESPACE", message, fix)

    # ---- facets

    def check(self, symbol: Symbol) -> None:
        if isinstance(symbol.node, SchemaDecl):
            self._check_schema(symbol, symbol.node)
            return
        self._check_signature(symbol)
        scope = Scope(symbol.namespace, self._inputs(symbol))
        targets = YieldScope(symbol, self._context.names)
        node = symbol.node
        if isinstance(node.body, PromptBlock):
            self._check_prompt(node.body, symbol)
        self._blocks.check_body(node.body, scope, targets)
        if node.catch is not None:
            inputs = scope.inputs if scope.inputs is not None else {}
            self._blocks.check_catch(node.catch, scope.with_inputs({**inputs, **CAUGHT}), targets)
        self._check_recursion(symbol)
        self._check_yielded(symbol)

    def _check_schema(self, symbol: Symbol, schema: SchemaDecl) -> None:
        if symbol.name in BUILTINS:
            message = f"As a type, '{symbol.name}' is the built-in one and not this schema"
            self._context.warning(schema, "SCHEMA_NAME_OF_TYPE", message, "choose another name")
        for field in schema.fields:
            self._check_type(field.type, symbol.namespace)

    def _inputs(self, symbol: Symbol) -> dict[str, Type]:
        """What `$` is in the body: parameters, mixin aliases, and what the agent returned."""
        signatures = self._context.signatures
        inputs = {name: slot.type for name, slot in signatures.params(symbol).items()}
        if symbol.kind == EVENT_FACET:
            inputs |= {name: slot.type for name, slot in signatures.returns(symbol).items()}
        return inputs | signatures.aliases(symbol)

    def _check_signature(self, symbol: Symbol) -> None:
        params, returns = symbol.params, symbol.returns or []
        check_unique(self._context, "parameter", ((one.name, one) for one in params))
        check_unique(self._context, "return", ((one.name, one) for one in returns))
        taken = {one.name for one in [*params, *returns]}
        check_aliases(self._context, symbol.mixins, taken)
        for param in [*params, *returns]:
            self._check_param(param, symbol.namespace)
        scope = Scope(
            symbol.namespace, {name: s.type for name, s in self._context.signatures.params(symbol).items()}
        )
        for mixin in symbol.mixins:
            self._blocks.calls.check_mixin(mixin, scope, symbol)
        self._blocks.calls.policies.check_exclusive(symbol.mixins, symbol.namespace)

    def _check_param(self, param: Parameter, namespace: str) -> None:
        self._check_type(param.type, namespace)
        if param.default is None:
            return
        kind = self._blocks.expressions.infer(param.default, Scope(namespace, {}))
        wanted = self._context.signatures.types.resolve(param.type, namespace)
        if not assignable(kind, wanted):
            message = f"Default of '{param.name}' must be {wanted}, got {kind}"
            self._context.error(param.default, "DEFAULT_TYPE", message)

    def _check_type(self, node: TypeExpr, namespace: str) -> None:
        if isinstance(node, ArrayType):
            self._check_type(node.element_type, namespace)
            return
        if node.name in BUILTINS:
            return
        found = self._context.signatures.types.find(node.name, namespace)
        if found.is_ambiguous:
            options = ", ".join(some(symbol.full_name for symbol in found.candidates))
            message = (
                f"Ambiguous schema reference '{node.name}': could be {options}. "
                "Use fully qualified name to disambiguate."
            )
            self._context.error(node, "REF_AMBIGUOUS_SCHEMA", message)
        elif found.symbol is None:
            rule = "REF_UNKNOWN_SCHEMA" if "." in node.name else "REF_UNKNOWN_TYPE"
            message = f"Unknown type '{node.name}': not a builtin type or known schema."
            fix = self._context.suggest(node.name, self._type_names) or _TYPES_ELSEWHERE.get(
                node.name.lower()
            )
            self._context.error(node, rule, message, fix)

    def _type_names(self) -> list[str]:
        return [*BUILTINS, *self._context.names.known(frozenset({SCHEMA}))]

    # ---- bodies

    def _check_prompt(self, prompt: PromptBlock, symbol: Symbol) -> None:
        if symbol.kind != EVENT_FACET:
            message = f"Only an event facet can have a prompt, '{symbol.name}' is a {symbol.kind}"
            self._context.error(prompt, "PROMPT_NOT_EVENT", message, "declare it as 'event facet'")
        if prompt.template is None:
            self._context.error(
                prompt, "PROMPT_MISSING_TEMPLATE", "Prompt block must have a 'template' directive"
            )
        params = self._context.signatures.params(symbol)
        for directive in ("system", "template"):
            for name in _placeholders(getattr(prompt, directive) or ""):
                if name not in params:
                    message = f"Invalid placeholder '{name}' in {directive}: no parameter named '{name}'"
                    self._context.error(
                        prompt,
                        "PROMPT_INVALID_PLACEHOLDER",
                        message,
                        self._context.suggest(name, lambda: params),
                    )

    def _check_recursion(self, symbol: Symbol) -> None:
        """A step that always calls its own facet never ends; one inside a `when` or a foreach may."""
        for part in clauses(symbol.node.body if not isinstance(symbol.node, SchemaDecl) else None):
            if part.foreach is not None:
                continue
            for statement in part.block.steps:
                if not isinstance(statement, StepStmt) or statement.body is not None:
                    continue
                if self._context.names.symbol(statement.call.name, symbol.namespace) is symbol:
                    message = f"'{symbol.name}' calls itself unconditionally in step '{statement.name}'"
                    self._context.error(
                        statement, "RECURSION_UNCONDITIONAL", message, "put the step into a 'when'"
                    )

    def _check_yielded(self, symbol: Symbol) -> None:
        node = symbol.node
        if isinstance(node, SchemaDecl) or symbol.kind == EVENT_FACET or not clauses(node.body):
            return
        for param in symbol.returns or []:
            if param.default is None and (symbol.full_name, param.name) not in self._blocks.yields.supplied:
                message = f"Return '{param.name}' of '{symbol.name}' is never yielded"
                self._context.warning(param, "RETURN_NEVER_YIELDED", message)

    # ---- implicits

    def check_implicit(self, implicit: ImplicitDecl, namespace: str) -> None:
        call = implicit.call
        scope = Scope(namespace, {})
        for mixin in call.mixins:
            self._blocks.calls.check_mixin(mixin, scope, None)
            mixed = self._context.names.symbol(mixin.name, namespace, FACETS)
            if mixed is not None and mixed.is_policy:
                self._blocks.calls.policies.check_implicit(implicit, mixin)
        symbol = self._context.find(call, call.name, namespace)
        if symbol is None:
            return
        slots = self._context.signatures.params(symbol)
        for arg in call.args:
            if arg.name and arg.name not in slots:
                message = (
                    f"Implicit '{implicit.name}' passes unknown parameter '{arg.name}' to facet '{call.name}'"
                )
                self._context.error(
                    arg, "IMPLICIT_UNKNOWN_PARAM", message, self._context.suggest(arg.name, lambda: slots)
                )
        known = [arg for arg in call.args if not arg.name or arg.name in slots]
        bound = self._blocks.calls.bind(known, Receiver(f"facet '{call.name}'"), slots, scope)
        self._check_ambiguous(implicit, namespace, symbol, bound)

    def _check_ambiguous(
        self, implicit: ImplicitDecl, namespace: str, symbol: Symbol, names: Iterable[str]
    ) -> None:
        """One implicit supplies an argument; two of one name in a namespace are reported as duplicates."""
        for name in names:
            where, first = self._context.implied[symbol.full_name][name]
            if (where, first.name) != (namespace, implicit.name):
                message = (
                    f"Implicit '{implicit.name}' supplies '{name}' of facet '{implicit.call.name}', "
                    f"and so does implicit '{first.name}'{_elsewhere(first, implicit)}"
                )
                self._context.error(implicit, "IMPLICIT_AMBIGUOUS", message, "leave it out in one of them")


def _elsewhere(node: ASTNode, seen_from: ASTNode) -> str:
    """The place of another node: its line, and its source if that is not the same."""
    here, there = seen_from.location, node.location
    if there is None:
        return ""
    of = f" of {there.source_id}" if here is not None and here.source_id != there.source_id else ""
    return f" at line {there.line}{of}"


def _placeholders(text: str) -> Iterator[str]:
    return (match[1] for match in _PLACEHOLDER.finditer(text) if match[1])
