"""Rule methods for values: literals, references, operators, arguments and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Token

from afl.language.ast.declarations import ArrayType, TypeExpr, TypeRef
from afl.language.ast.expressions import (
    ArrayLiteral,
    Comprehension,
    ConditionalExpr,
    Expression,
    FunctionExpr,
    IndexExpr,
    Literal,
    MapEntry,
    MapLiteral,
    NamedArg,
    Reference,
    UnaryExpr,
)
from afl.language.builder.base import MAX_EXPRESSION_DEPTH, BaseBuilder, Children
from afl.language.literals import decode_float, decode_integer, decode_string
from afl.language.operators import fold

_CONSTANTS: dict[str, tuple[bool | None, str]] = {
    "true": (True, "boolean"),
    "false": (False, "boolean"),
    "null": (None, "null"),
}


class ExpressionBuilder(BaseBuilder):
    """Values."""

    # ---- atoms

    def step_ref(self, children: Children) -> Reference:
        token = children[0]
        return Reference(self._path(token, token.value.split(".")), False, location=self.at(token))

    def input_ref(self, children: Children) -> Reference:
        token = children[0]
        return Reference(token.value[2:].split("."), True, location=self.at(token))

    def string(self, children: Children) -> Literal:
        return Literal(self.text(children[0]), "string", location=self.at(children[0]))

    def integer(self, children: Children) -> Literal:
        return Literal(
            self._decoded(children[0], decode_integer, 0), "integer", location=self.at(children[0])
        )

    def float(self, children: Children) -> Literal:
        return Literal(self._decoded(children[0], decode_float, 0.0), "double", location=self.at(children[0]))

    def constant(self, children: Children) -> Literal:
        value, kind = _CONSTANTS[children[0].value]
        return Literal(value, kind, location=self.at(children[0]))

    def text(self, token: Token) -> str:
        """The value of a string token."""
        decoded: str = self._decoded(token, decode_string, "")
        return decoded

    def parenthesised(self, children: Children) -> Expression:
        inner: Expression = children[1]
        inner.location = self.between(children[0], children[2])
        return inner

    def array(self, children: Children) -> ArrayLiteral:
        node = ArrayLiteral(children[1], location=self.between(children[0], children[2]))
        self.deepen(node, node.elements, MAX_EXPRESSION_DEPTH)
        return node

    def map(self, children: Children) -> MapLiteral:
        node = MapLiteral(children[1], location=self.between(children[0], children[2]))
        self.deepen(node, [entry.value for entry in node.entries], MAX_EXPRESSION_DEPTH)
        return node

    def entry(self, children: Children) -> MapEntry:
        key = children[0]
        name = self.text(key) if key.type == "STRING" else self.plain(key, "A map key")
        return MapEntry(name, children[2], location=self.between(key, children[2]))

    # ---- operators

    def index(self, children: Children) -> IndexExpr:
        node = IndexExpr(children[0], children[2], location=self.between(children[0], children[3]))
        self.deepen(node, (node.target, node.index), MAX_EXPRESSION_DEPTH)
        return node

    def attribute(self, children: Children) -> Expression:
        """`a . b` is the reference `a.b`; after anything but a reference a dot is an index by name."""
        target, _, token = children
        path = self._path(token, token.value.split("."))
        where = self.between(target, token)
        if isinstance(target, Reference):
            target.path += path
            target.location = where
            return target
        for name in path:
            target = self.index([target, None, Literal(name, "string", location=self.at(token)), token])
        return target  # type: ignore[no-any-return]

    def unary(self, children: Children) -> Expression:
        sign, operand = children
        if sign.value == "+":
            return operand  # type: ignore[no-any-return]
        node = UnaryExpr(sign.value, operand, location=self.between(sign, operand))
        self.deepen(node, (operand,), MAX_EXPRESSION_DEPTH)
        return node

    @staticmethod
    def operands(children: Children) -> Children:
        return children

    @staticmethod
    def more_operands(children: Children) -> Children:
        run: Children = children[0]
        run += children[1:]
        return run

    def conditional(self, children: Children) -> ConditionalExpr:
        condition, _, then, _, otherwise = children
        node = ConditionalExpr(condition, then, otherwise, location=self.between(condition, otherwise))
        self.deepen(node, (condition, then, otherwise), MAX_EXPRESSION_DEPTH)
        return node

    def function(self, children: Children) -> FunctionExpr:
        name, args = self.plain(children[0], "A function name"), children[2]
        node = FunctionExpr(name, args, location=self.between(children[0], children[3]))
        self.deepen(node, args, MAX_EXPRESSION_DEPTH)
        return node

    def comprehension(self, children: Children) -> Comprehension:
        element, name, iterable = children[1], children[3], children[5]
        condition = children[7] if len(children) > 7 else None
        node = Comprehension(
            element,
            self.plain(name, "A variable"),
            iterable,
            condition,
            location=self.between(children[0], children[-1]),
        )
        self.deepen(node, (element, iterable, condition), MAX_EXPRESSION_DEPTH)
        return node

    def binary(self, children: Children) -> Expression:
        run = children[0]
        tree = fold(run, self._chained)
        added = sum(1 for operator in run[1::2] if operator.value != "++") or 1
        self.deepen(tree, run[::2], MAX_EXPRESSION_DEPTH, added)
        return tree

    def _chained(self, operator: Token) -> None:
        self.problem(
            operator,
            f"Comparisons do not chain: a second one at '{operator}'",
            "SYNTAX_CHAINED_COMPARISON",
            "join two comparisons with '&&', or use parentheses",
        )

    # ---- arguments and types

    def named_arg(self, children: Children) -> NamedArg:
        name, _, value = children
        return NamedArg(self.plain(name, "An argument name"), value, location=self.between(name, value))

    def positional_arg(self, children: Children) -> NamedArg:
        return NamedArg("", children[0], location=children[0].location)

    def type_name(self, children: Children) -> TypeExpr:
        return TypeRef(children[0].value, location=self.at(children[0]))

    def array_type(self, children: Children) -> TypeExpr:
        node = ArrayType(children[1], location=self.between(children[0], children[2]))
        self.deepen(node, (node.element_type,), MAX_EXPRESSION_DEPTH)
        return node

    # ---- helpers

    def _path(self, token: Token, path: list[str]) -> list[str]:
        number = next((name for name in path if name[0].isdigit()), None)
        if number is not None:
            self.problem(
                token,
                f"'{number}' is not an attribute name in '{token}'",
                "SYNTAX_ATTRIBUTE_NAME",
                f"to take an element of a list write [{number}]",
            )
        return path

    def _decoded(self, token: Token, decode: Callable[[str], Any], otherwise: Any) -> Any:
        try:
            return decode(token.value)
        except ValueError as error:
            self.problem(token, str(error), "SYNTAX_LITERAL")
            return otherwise
