"""Names and what they mean: one resolver for the validator and the emitter.

A namespace is one scope however many blocks it has. A dotted name is a full name. Any other is looked for in
its own namespace, then in the imported ones and the top level together, then in the whole program, then in
`sys`; at each stage more than one match is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

from afl.kernel.package_files import package_folder
from afl.language.ast.declarations import (
    EventFacetDecl,
    FacetDecl,
    Namespace,
    Parameter,
    Program,
    SchemaDecl,
    WorkflowDecl,
)
from afl.language.ast.expressions import MixinSig
from afl.language.parser import AFLParser

PRELUDE_NAMESPACE = "sys"
PRELUDE_SOURCE = "prelude.afl"

FACET, EVENT_FACET, WORKFLOW, SCHEMA = "facet", "event facet", "workflow", "schema"
FACETS = frozenset({FACET, EVENT_FACET, WORKFLOW})
CALLABLE = FACETS | {SCHEMA}
SCHEMAS = frozenset({SCHEMA})


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """One declared name."""

    full_name: str
    namespace: str
    kind: str
    node: FacetDecl | EventFacetDecl | WorkflowDecl | SchemaDecl

    @property
    def name(self) -> str:
        return self.full_name.rpartition(".")[2] if self.namespace else self.full_name

    @property
    def params(self) -> list[Parameter]:
        """What a call may pass; for a schema, its fields."""
        if isinstance(self.node, SchemaDecl):
            return [Parameter(f.name, f.type, location=f.location) for f in self.node.fields]
        return self.node.sig.params

    @property
    def returns(self) -> list[Parameter] | None:
        """The declared returns; None without a return clause."""
        if isinstance(self.node, SchemaDecl):
            return self.params
        return self.node.sig.returns.params if self.node.sig.returns is not None else None

    @property
    def mixins(self) -> list[MixinSig]:
        return [] if isinstance(self.node, SchemaDecl) else self.node.sig.mixins

    @property
    def is_built_in(self) -> bool:
        return self.namespace == PRELUDE_NAMESPACE

    @property
    def is_policy(self) -> bool:
        return self.is_built_in and self.kind == FACET


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a lookup: a symbol, several candidates, or nothing."""

    symbol: Symbol | None = None
    candidates: tuple[Symbol, ...] = ()

    @property
    def is_ambiguous(self) -> bool:
        return self.symbol is None and bool(self.candidates)


_NOTHING = Found()


@dataclass
class _Scope:
    symbols: dict[str, list[Symbol]] = field(default_factory=dict)
    imports: dict[str, None] = field(default_factory=dict)


class Names:
    """All names of a program and of the prelude."""

    def __init__(self, program: Program) -> None:
        self._scopes: dict[str, _Scope] = {"": _Scope()}
        self._by_full_name: dict[str, list[Symbol]] = {}
        self._by_short_name: dict[str, list[Symbol]] = {}
        self._found: dict[tuple[str, str | None, frozenset[str]], Found] = {}
        self.symbols = list(symbols_of(program))
        for symbol in self.symbols:
            self._add(symbol)
        for block in program.namespaces:
            scope = self._scopes.setdefault(block.name, _Scope())
            scope.imports.update(dict.fromkeys(uses.name for uses in block.uses))

    def _add(self, symbol: Symbol) -> None:
        scope = self._scopes.setdefault(symbol.namespace, _Scope())
        scope.symbols.setdefault(symbol.name, []).append(symbol)
        self._by_full_name.setdefault(symbol.full_name, []).append(symbol)
        # A second declaration of one full name is a duplicate, not a second meaning.
        if len(self._by_full_name[symbol.full_name]) == 1:
            self._by_short_name.setdefault(symbol.name, []).append(symbol)

    @cached_property
    def namespaces(self) -> frozenset[str]:
        return frozenset((self._scopes.keys() - {""}) | {PRELUDE_NAMESPACE})

    def declared(self, full_name: str) -> list[Symbol]:
        """Every declaration of a full name, duplicates included."""
        return self._by_full_name.get(full_name, [])

    def known(self, kinds: frozenset[str] = CALLABLE) -> list[str]:
        """Every name of these kinds, short and full, for suggestions."""
        full = [name for name, symbols in self._by_full_name.items() if symbols[0].kind in kinds]
        short = [name for name, symbols in self._by_short_name.items() if symbols[0].kind in kinds]
        return sorted({*full, *short, *(symbol.name for symbol in prelude() if symbol.kind in kinds)})

    def find(self, name: str, namespace: str, kinds: frozenset[str] = CALLABLE) -> Found:
        """What `name` means inside `namespace`."""
        key = (name, namespace, kinds)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._search(name, namespace, kinds)
        return found

    def symbol(self, name: str, namespace: str, kinds: frozenset[str] = CALLABLE) -> Symbol | None:
        return self.find(name, namespace, kinds).symbol

    def type_symbol(self, name: str, namespace: str) -> Symbol | None:
        """The schema or facet that a type names."""
        return self.symbol(name, namespace, SCHEMAS) or self.symbol(name, namespace, FACETS)

    def _search(self, name: str, namespace: str, kinds: frozenset[str]) -> Found:
        found = _first_match(self._near_stages(name, namespace), kinds)
        if found is not _NOTHING or "." in name:
            return found
        # What the whole program means by it is the same for every namespace, and may be much to look through.
        key = (name, None, kinds)
        if key not in self._found:
            self._found[key] = _first_match(self._far_stages(name), kinds)
        return self._found[key]

    def _near_stages(self, name: str, namespace: str) -> Iterator[Iterable[Symbol]]:
        if "." in name:
            yield self._by_full_name.get(name, [])[:1]
            yield [symbol for symbol in prelude() if symbol.full_name == name]
            return
        yield self._in(namespace, name)
        yield [*self._imported(namespace, name), *self._in("", name)]

    def _far_stages(self, name: str) -> Iterator[Iterable[Symbol]]:
        yield self._by_short_name.get(name, [])
        yield [symbol for symbol in prelude() if symbol.name == name]

    def _imported(self, namespace: str, name: str) -> list[Symbol]:
        scope = self._scopes.get(namespace)
        if scope is None:
            return []
        bearers = self._by_short_name.get(name, ())
        if len(bearers) < len(scope.imports) and PRELUDE_NAMESPACE not in scope.imports:
            return [symbol for symbol in bearers if symbol.namespace in scope.imports]
        return [symbol for source in scope.imports for symbol in self._in(source, name)]

    def _in(self, namespace: str, name: str) -> list[Symbol]:
        if namespace == PRELUDE_NAMESPACE and namespace not in self._scopes:
            return [symbol for symbol in prelude() if symbol.name == name]
        scope = self._scopes.get(namespace)
        return scope.symbols.get(name, [])[:1] if scope is not None else []


def _first_match(stages: Iterable[Iterable[Symbol]], kinds: frozenset[str]) -> Found:
    for stage in stages:
        matches = {symbol.full_name: symbol for symbol in stage if symbol.kind in kinds}
        if len(matches) == 1:
            return Found(next(iter(matches.values())))
        if matches:
            return Found(None, tuple(matches[full] for full in sorted(matches)))
    return _NOTHING


def symbols_of(program: Program) -> Iterator[Symbol]:
    """The declared names, top level first, then each namespace block."""
    yield from _declared("", program)
    for block in program.namespaces:
        yield from _declared(block.name, block)


def _declared(namespace: str, owner: Program | Namespace) -> Iterator[Symbol]:
    prefix = f"{namespace}." if namespace else ""
    groups: tuple[tuple[str, Iterable[FacetDecl | EventFacetDecl | WorkflowDecl]], ...] = (
        (FACET, owner.facets),
        (EVENT_FACET, owner.event_facets),
        (WORKFLOW, owner.workflows),
    )
    for kind, nodes in groups:
        for node in nodes:
            yield Symbol(prefix + node.sig.name, namespace, kind, node)
    for schema in owner.schemas:
        yield Symbol(prefix + schema.name, namespace, SCHEMA, schema)


@cache
def prelude() -> tuple[Symbol, ...]:
    """The built-in facets and schemas of namespace `sys`."""
    return tuple(symbols_of(AFLParser().parse(prelude_text(), PRELUDE_SOURCE)))


def prelude_text() -> str:
    """The source that declares them."""
    return (package_folder("afl.language") / PRELUDE_SOURCE).read_text(encoding="utf-8")
