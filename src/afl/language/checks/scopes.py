"""What a name and `$` mean inside a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from afl.language.names import Symbol
from afl.language.types import UNKNOWN, Type, symbol_type


@dataclass(frozen=True, slots=True)
class Binding:
    """A step (its attributes; None means any) or the variable of a foreach or repeat (its type).

    `missing` are the returns that a step does not have after its catch ran, `unawaited` those of a child run that the
    step does not wait for.
    """

    type: Type
    attributes: Mapping[str, Type] | None = None
    is_step: bool = True
    missing: frozenset[str] = frozenset()
    unawaited: frozenset[str] = frozenset()


def variable(kind: Type) -> Binding:
    return Binding(kind, None, False)


def step(
    symbol: Symbol | None,
    attributes: Mapping[str, Type] | None,
    missing: frozenset[str] = frozenset(),
    unawaited: frozenset[str] = frozenset(),
) -> Binding:
    kind = symbol_type(symbol) if symbol is not None else UNKNOWN
    return Binding(kind, attributes, missing=missing, unawaited=unawaited)


@dataclass
class Scope:
    """One block: the names bound so far, those still to come, and what encloses it.

    `inputs` is what `$.x` may name; None means anything, since the facet is unknown.
    """

    namespace: str
    inputs: Mapping[str, Type] | None
    bindings: dict[str, Binding] = field(default_factory=dict)
    parent: Scope | None = None
    later: Mapping[str, int | None] = field(default_factory=dict)
    steps: frozenset[str] = frozenset()  # of this block, and of it and all blocks beside it
    siblings: frozenset[str] = frozenset()
    current: str | None = None
    repeat: str = ""  # of the head of a repeat: its variable, and the steps of its block
    repeated: frozenset[str] = frozenset()

    def find(self, name: str) -> Binding | None:
        """What the name means: in a block that has a step of that name, nothing else, even before the step."""
        for scope in self._outward():
            if name in scope.bindings:
                return scope.bindings[name]
            if name in scope.later:
                return None
        return None

    def later_line(self, name: str) -> int | None:
        """The line of the step of that name that is still to come, here or in a block around this one."""
        return next((scope.later[name] for scope in self._outward() if name in scope.later), None)

    def _outward(self) -> Iterator[Scope]:
        """This block, and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def known(self) -> set[str]:
        """Every visible step and variable, for suggestions."""
        outer = self.parent.known() if self.parent is not None else set()
        return outer | self.bindings.keys()

    def inner(self) -> Scope:
        """A block inside this one with the same `$`."""
        return Scope(self.namespace, self.inputs, parent=self)

    def with_inputs(self, inputs: Mapping[str, Type] | None) -> Scope:
        """A block inside this one that belongs to somebody else: `$` is theirs."""
        return Scope(self.namespace, inputs, parent=self)

    def has_input(self, name: str) -> bool:
        """Whether `$.name` is a parameter here or in a block around this one."""
        return any(name in (scope.inputs or ()) for scope in self._outward())

    def is_sibling(self, name: str) -> bool:
        """Whether the name is a step of a block beside this one, or beside one around it."""
        return any(name in scope.siblings and name not in scope.steps for scope in self._outward())
