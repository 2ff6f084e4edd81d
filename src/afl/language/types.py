"""Types of values: what they are called, what fits where, what operators make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from afl.language.ast.declarations import ArrayType, TypeExpr
from afl.language.names import FACETS, SCHEMAS, Found, Names, Symbol


@dataclass(frozen=True, slots=True)
class Type:
    """A builtin by its name, an array with its element, a schema or facet with its symbol, or a map with its fields."""

    name: str
    element: Type | None = None
    symbol: Symbol | None = field(default=None, compare=False)
    fields: Mapping[str, Type] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.element is not None:
            return "Array" if self.element.is_open else f"[{self.element}]"
        return self.name

    @property
    def is_open(self) -> bool:
        """Anything goes: nothing is known, or the value is `Json`."""
        return self.name in ("Unknown", "Json")

    @property
    def is_array(self) -> bool:
        return self.element is not None

    @property
    def is_numeric(self) -> bool:
        return self.name in _WIDTH

    @property
    def is_schema(self) -> bool:
        return self.symbol is not None and self.symbol.kind in SCHEMAS

    @property
    def is_facet(self) -> bool:
        return self.symbol is not None and self.symbol.kind in FACETS

    @property
    def innermost(self) -> Type:
        """Of a list, the type of what it holds in the end; else the type itself."""
        return self if self.element is None else self.element.innermost


STRING = Type("String")
INT = Type("Int")
LONG = Type("Long")
DOUBLE = Type("Double")
BOOLEAN = Type("Boolean")
JSON = Type("Json")
MAP = Type("Map")
NULL = Type("Null")
UNKNOWN = Type("Unknown")
ENTRY = Type("Entry", fields={"key": STRING, "value": UNKNOWN})
"""What the variable of a foreach over a map has."""

BUILTINS = {one.name: one for one in (STRING, INT, LONG, DOUBLE, BOOLEAN, JSON, MAP)} | {"Any": UNKNOWN}

_WIDTH = {"Int": 1, "Long": 2, "Double": 3}


def array_of(element: Type) -> Type:
    return Type("Array", element)


def symbol_type(symbol: Symbol) -> Type:
    return Type(symbol.full_name, symbol=symbol)


def assignable(source: Type, target: Type) -> bool:
    """Whether a value of type `source` may stand where `target` is asked for."""
    if source.is_open or target.is_open or source in (NULL, target):
        return True
    if source.is_numeric and target.is_numeric:
        return _WIDTH[source.name] <= _WIDTH[target.name]
    if source.element is not None and target.element is not None:
        return assignable(source.element, target.element)
    if target == MAP:
        return source.is_schema or source.fields is not None
    return source == MAP and target.is_schema


def widest(left: Type, right: Type) -> Type:
    """The numeric type that holds both."""
    return left if _WIDTH[left.name] >= _WIDTH[right.name] else right


def common(types: list[Type]) -> Type:
    """One type for all elements of an array literal; unknown when they have none in common."""
    result = UNKNOWN
    for number, one in enumerate(types):
        if number == 0 or result in (NULL, one):
            result = one
        elif one.is_numeric and result.is_numeric:
            result = widest(result, one)
        elif one != NULL:
            return UNKNOWN
    return result


class TypeNames:
    """Leads from the types that are written to the types that are meant."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def find(self, name: str, namespace: str) -> Found:
        """A schema of that name, else a facet."""
        found = self._names.find(name, namespace, SCHEMAS)
        return found if found.symbol or found.candidates else self._names.find(name, namespace, FACETS)

    def resolve(self, node: TypeExpr, namespace: str) -> Type:
        """The type; unknown when the name is (which is reported where it is declared)."""
        if isinstance(node, ArrayType):
            return array_of(self.resolve(node.element_type, namespace))
        if node.name in BUILTINS:
            return BUILTINS[node.name]
        symbol = self.find(node.name, namespace).symbol
        return symbol_type(symbol) if symbol is not None else UNKNOWN
