"""What each declaration takes and gives, with types resolved once."""

from __future__ import annotations

from dataclasses import dataclass

from afl.language.ast.declarations import Parameter
from afl.language.names import EVENT_FACET, FACETS, SCHEMA, Names, Symbol
from afl.language.types import UNKNOWN, Type, TypeNames, symbol_type

MAX_MIXINS = 1_000


@dataclass(frozen=True, slots=True)
class Slot:
    """One parameter, return or field."""

    name: str
    type: Type
    has_default: bool


class Signatures:
    """Slots and attributes by symbol."""

    def __init__(self, names: Names) -> None:
        self.types = TypeNames(names)
        self._names = names
        self._params: dict[Symbol, dict[str, Slot]] = {}
        self._required: dict[Symbol, list[Slot]] = {}
        self._returns: dict[Symbol, dict[str, Slot]] = {}
        self._attributes: dict[Symbol, dict[str, Type] | None] = {}

    def params(self, symbol: Symbol) -> dict[str, Slot]:
        if symbol not in self._params:
            self._params[symbol] = self._slots(symbol.params, symbol.namespace)
        return self._params[symbol]

    def required(self, symbol: Symbol) -> list[Slot]:
        """The parameters without a default."""
        if symbol not in self._required:
            self._required[symbol] = [slot for slot in self.params(symbol).values() if not slot.has_default]
        return self._required[symbol]

    def returns(self, symbol: Symbol) -> dict[str, Slot]:
        if symbol not in self._returns:
            self._returns[symbol] = self._slots(symbol.returns or [], symbol.namespace)
        return self._returns[symbol]

    def _slots(self, params: list[Parameter], namespace: str) -> dict[str, Slot]:
        return {
            param.name: Slot(param.name, self.types.resolve(param.type, namespace), param.default is not None)
            for param in params
        }

    def attributes(self, symbol: Symbol) -> dict[str, Type] | None:
        """What `step.x` may name: parameters, returns, mixin aliases. None: anything, the agent decides."""
        if symbol not in self._attributes:
            is_open = symbol.kind == EVENT_FACET and symbol.returns is None
            self._attributes[symbol] = None if is_open else self._closed_attributes(symbol)
        return self._attributes[symbol]

    def _closed_attributes(self, symbol: Symbol) -> dict[str, Type]:
        attributes = {name: slot.type for name, slot in self.params(symbol).items()}
        attributes |= {name: slot.type for name, slot in self.returns(symbol).items()}
        return attributes | self.aliases(symbol)

    def aliases(self, symbol: Symbol) -> dict[str, Type]:
        """The signature mixins that have an alias, as values."""
        if symbol.kind == SCHEMA:
            return {}
        return {
            mixin.alias: self._mixin_type(mixin.name, symbol.namespace)
            for mixin in symbol.mixins
            if mixin.alias is not None
        }

    def _mixin_type(self, name: str, namespace: str) -> Type:
        found = self._names.symbol(name, namespace, FACETS)
        return symbol_type(found) if found is not None else UNKNOWN

    def mixes_in(self, symbol: Symbol, wanted: Symbol) -> bool:
        """Whether a step of `symbol` may be passed where one of `wanted` is asked for; of its mixins, and theirs, the
        first thousand count."""
        seen: set[Symbol] = set()
        pending = [symbol]
        while pending and len(seen) < MAX_MIXINS:
            current = pending.pop()
            if current is wanted:
                return True
            if current not in seen:
                seen.add(current)
                found = (
                    self._names.symbol(mixin.name, current.namespace, FACETS) for mixin in current.mixins
                )
                pending += [one for one in found if one is not None]
        return False
