"""Expressions and ids as the plain dicts of the compiled program."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import Any, TypeAlias
from uuid import UUID

from afl.language.ast.expressions import (
    ArrayLiteral,
    BinaryExpr,
    Comprehension,
    ConcatExpr,
    ConditionalExpr,
    Expression,
    FunctionExpr,
    IndexExpr,
    Literal,
    MapLiteral,
    Reference,
    UnaryExpr,
)
from afl.language.ast.node import SourceLocation

Json: TypeAlias = dict[str, Any]
Locate: TypeAlias = Callable[[SourceLocation | None], Json | None]

_LITERALS = {"string": "String", "integer": "Int", "double": "Double", "boolean": "Boolean"}


class ExpressionEmitter:
    """Converts expressions; operators carry their location, since they can fail when the program runs."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._converters: dict[type, Callable[[Any], Json]] = {
            Literal: self._literal,
            Reference: self._reference,
            ConcatExpr: self._concat,
            BinaryExpr: self._binary,
            UnaryExpr: self._unary,
            IndexExpr: self._index,
            ArrayLiteral: self._array,
            MapLiteral: self._map,
            ConditionalExpr: self._conditional,
            FunctionExpr: self._function,
            Comprehension: self._comprehension,
        }

    def handles(self, node: object) -> bool:
        return type(node) in self._converters

    def convert(self, node: Expression) -> Json:
        return self._converters[type(node)](node)

    @staticmethod
    def _literal(node: Literal) -> Json:
        if node.kind == "null":
            return {"type": "Null"}
        return {"type": _LITERALS[node.kind], "value": node.value}

    @staticmethod
    def _reference(node: Reference) -> Json:
        return {"type": "InputRef" if node.is_input else "StepRef", "path": node.path}

    def _concat(self, node: ConcatExpr) -> Json:
        return {"type": "ConcatExpr", "operands": [self.convert(operand) for operand in node.operands]}

    def _binary(self, node: BinaryExpr) -> Json:
        left, right = self.convert(node.left), self.convert(node.right)
        data = {"type": "BinaryExpr", "operator": node.operator, "left": left, "right": right}
        return self._located(data, node.location)

    def _unary(self, node: UnaryExpr) -> Json:
        data = {"type": "UnaryExpr", "operator": node.operator, "operand": self.convert(node.operand)}
        return self._located(data, node.location)

    def _index(self, node: IndexExpr) -> Json:
        data = {"type": "IndexExpr", "target": self.convert(node.target), "index": self.convert(node.index)}
        return self._located(data, node.location)

    def _array(self, node: ArrayLiteral) -> Json:
        return {"type": "ArrayLiteral", "elements": [self.convert(element) for element in node.elements]}

    def _map(self, node: MapLiteral) -> Json:
        entries = [{"key": entry.key, "value": self.convert(entry.value)} for entry in node.entries]
        return {"type": "MapLiteral", "entries": entries}

    def _conditional(self, node: ConditionalExpr) -> Json:
        parts = {name: self.convert(getattr(node, name)) for name in ("condition", "then", "otherwise")}
        return self._located({"type": "ConditionalExpr", **parts}, node.location)

    def _function(self, node: FunctionExpr) -> Json:
        data = {"type": "FunctionExpr", "name": node.name, "args": [self.convert(arg) for arg in node.args]}
        return self._located(data, node.location)

    def _comprehension(self, node: Comprehension) -> Json:
        data = {
            "type": "Comprehension",
            "element": self.convert(node.element),
            "variable": node.variable,
            "iterable": self.convert(node.iterable),
        }
        if node.condition is not None:
            data["condition"] = self.convert(node.condition)
        return self._located(data, node.location)

    def _located(self, data: Json, location: SourceLocation | None) -> Json:
        where = self._locate(location)
        if where is not None:
            data["location"] = where
        return data


_NAMESPACE = UUID("6f1d8b0e-5f0c-5a53-9d0c-0a7a0f3c1e55").bytes
_VARIANT = "89ab"


def path_id(path: str) -> str:
    """The version 5 UUID of a path. Formatted by hand: `uuid.uuid5` takes several times as long."""
    digest = sha1(_NAMESPACE + path.encode(), usedforsecurity=False).hexdigest()
    variant = _VARIANT[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
