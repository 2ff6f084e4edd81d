"""What a yield may name: the facet that owns the block, its mixins, and those of every enclosing owner."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from afl.language.ast.declarations import Parameter
from afl.language.names import FACETS, Names, Symbol


@dataclass(frozen=True, slots=True)
class YieldTarget:
    """One permitted target. `full_name` is what the compiled program says; `symbol` is None if unknown."""

    name: str
    full_name: str
    symbol: Symbol | None
    owner: Symbol
    is_mixin: bool = False

    def values(self) -> list[Parameter]:
        """What the yield may set: the owner's returns; for a mixin, its own values too and first."""
        own: list[Parameter] = []
        if self.is_mixin and self.symbol is not None:
            own = [*(self.symbol.returns or []), *self.symbol.params]
        return [*own, *(self.owner.returns or [])]


class YieldScope:
    """The targets of one owner, searched before those of the owners around it."""

    def __init__(self, owner: Symbol, names: Names, outer: YieldScope | None = None) -> None:
        self.owner = owner
        self.outer = outer
        self.targets: dict[str, YieldTarget] = {}
        self.ambiguous: set[str] = set()
        for mixin in owner.mixins:
            self._add_mixin(mixin.name, mixin.alias, names)
        self.targets[owner.name] = YieldTarget(owner.name, owner.full_name, owner, owner)

    def _add_mixin(self, name: str, alias: str | None, names: Names) -> None:
        symbol = names.symbol(name, self.owner.namespace, FACETS)
        full_name = symbol.full_name if symbol is not None else name
        short = name.rpartition(".")[2]
        if short in self.targets:
            self.ambiguous.add(short)
        self.targets[short] = YieldTarget(short, full_name, symbol, self.owner, True)
        if alias is not None:
            self.targets[alias] = YieldTarget(alias, alias, symbol, self.owner, True)

    def find(self, name: str) -> YieldTarget | None:
        """The innermost target of that short name; a qualifier in front is ignored."""
        short = name.rpartition(".")[2]
        scope: YieldScope | None = self
        while scope is not None:
            if short in scope.targets:
                return scope.targets[short]
            scope = scope.outer
        return None

    def without_outer(self) -> YieldScope:
        """The targets of this owner without those around it."""
        found = copy(self)
        found.outer = None
        return found

    def is_ambiguous(self, name: str) -> bool:
        short = name.rpartition(".")[2]
        return short in self.ambiguous and short != self.owner.name

    def names(self) -> list[str]:
        """Every permitted short name, sorted."""
        outer = self.outer.names() if self.outer is not None else []
        return sorted({*self.targets, *outer})
