"""What operators accept and give."""

from __future__ import annotations

from afl.language.ast.expressions import BinaryExpr, UnaryExpr
from afl.language.ast.node import ASTNode
from afl.language.checks.context import Context
from afl.language.types import BOOLEAN, DOUBLE, STRING, UNKNOWN, Type, array_of, common, widest

ARITHMETIC = frozenset("+-*/%")
BOOLEAN_OPERATORS = frozenset({"&&", "||"})
ORDERED = frozenset({"<", ">", "<=", ">="})
CONTAINMENT = frozenset({"in", "not in", "contains"})
MATCHING = frozenset({"startsWith", "endsWith"})


def unary(context: Context, node: UnaryExpr, operand: Type) -> Type:
    if node.operator == "!":
        if not operand.is_open and operand != BOOLEAN:
            _type_error(
                context,
                node,
                "NOT_OPERAND_REQUIRED",
                f"operator '!' requires Boolean operands, got {operand}",
            )
        return BOOLEAN
    if not operand.is_open and not operand.is_numeric:
        _type_error(context, node, f"NEGATE_{_suffix(operand)}", f"cannot negate {_described(operand)}")
        return UNKNOWN
    return operand


def binary(context: Context, node: BinaryExpr, left: Type, right: Type) -> Type:
    if node.operator in ARITHMETIC:
        return _arithmetic(context, node, left, right)
    if node.operator in BOOLEAN_OPERATORS:
        _boolean(context, node, left, right)
    elif node.operator in ORDERED:
        _ordered(context, node, left, right)
    elif node.operator in CONTAINMENT:
        _containment(context, node, left, right)
    elif node.operator in MATCHING:
        _matching(context, node, left, right)
    return BOOLEAN


def concat(operands: list[Type]) -> Type:
    """Lists join to a list; everything else becomes text."""
    if all(one.is_array for one in operands):
        return array_of(common([one.element or UNKNOWN for one in operands]))
    return UNKNOWN if all(one.is_open or one.is_array for one in operands) else STRING


def _arithmetic(context: Context, node: BinaryExpr, left: Type, right: Type) -> Type:
    for operand in (left, right):
        if not operand.is_open and not operand.is_numeric:
            hint = " (use '++' for concatenation)" if operand == STRING else ""
            text = f"cannot use arithmetic operator '{node.operator}' with {_described(operand)}{hint}"
            _type_error(context, node, f"ARITHMETIC_{_suffix(operand)}", text)
            return UNKNOWN
    if left.is_open or right.is_open:
        return UNKNOWN
    return DOUBLE if node.operator == "/" else widest(left, right)


def _boolean(context: Context, node: BinaryExpr, left: Type, right: Type) -> None:
    for operand in (left, right):
        if not operand.is_open and operand != BOOLEAN:
            text = f"operator '{node.operator}' requires Boolean operands, got {operand}"
            _type_error(context, node, "BOOLEAN_OPERAND_REQUIRED", text)
            return


def _ordered(context: Context, node: BinaryExpr, left: Type, right: Type) -> None:
    for operand in (left, right):
        if not operand.is_open and not operand.is_numeric and operand != STRING:
            text = f"cannot use ordered comparison '{node.operator}' with {_described(operand)}"
            _type_error(context, node, f"ORDERED_COMPARISON_{_suffix(operand)}", text)
            return
    if not left.is_open and not right.is_open and left.is_numeric != right.is_numeric:
        _type_error(context, node, "COMPARISON_MISMATCH", f"cannot compare {left} with {right}")


def _containment(context: Context, node: BinaryExpr, left: Type, right: Type) -> None:
    container = left if node.operator == "contains" else right
    if container == BOOLEAN or container.is_numeric:
        text = f"operator '{node.operator}' searches a String, a list or a map, got {container}"
        _type_error(context, node, "CONTAINMENT_OPERAND", text)


def _matching(context: Context, node: BinaryExpr, left: Type, right: Type) -> None:
    for operand in (left, right):
        if not operand.is_open and operand != STRING:
            text = f"operator '{node.operator}' requires String operands, got {operand}"
            _type_error(context, node, "STRING_MATCH_OPERAND", text)
            return


def _type_error(context: Context, node: ASTNode, rule: str, text: str) -> None:
    context.error(node, f"TYPE_{rule}", f"Type error: {text}")


def _suffix(operand: Type) -> str:
    if operand.is_schema or operand.is_facet:
        return "SCHEMA"
    return operand.name.upper() if operand in (STRING, BOOLEAN) else "OPERAND"


def _described(operand: Type) -> str:
    return f"schema type '{operand}'" if operand.symbol is not None else f"{operand} operand"
