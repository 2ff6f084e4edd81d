"""References and types inside expressions: one walk reports what is wrong and infers what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afl.kernel.near_names import some
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
from afl.language.ast.node import ASTNode
from afl.language.checks import operators
from afl.language.checks.context import Context
from afl.language.checks.scopes import Binding, Scope, variable
from afl.language.functions import FUNCTIONS, fits
from afl.language.types import (
    BOOLEAN,
    DOUBLE,
    ENTRY,
    INT,
    LONG,
    MAP,
    NULL,
    STRING,
    UNKNOWN,
    Type,
    array_of,
    common,
)

_LITERALS = {"string": STRING, "integer": INT, "double": DOUBLE, "boolean": BOOLEAN, "null": NULL}
_INT_LIMIT = 2**31
_CONSTANTS = {"True": "true", "False": "false", **dict.fromkeys(("None", "nil", "undefined"), "null")}


class Expressions:
    """Checks expressions against a scope."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rules: dict[type, Callable[[Any, Scope], Type]] = {
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

    def infer(self, node: Expression, scope: Scope) -> Type:
        """The type of the value; everything wrong inside has been reported."""
        return self._rules[type(node)](node, scope)

    # ---- values

    @staticmethod
    def _literal(node: Literal, scope: Scope) -> Type:
        if isinstance(node.value, int) and node.kind == "integer":
            return INT if node.value < _INT_LIMIT else LONG
        return _LITERALS[node.kind]

    def _array(self, node: ArrayLiteral, scope: Scope) -> Type:
        return array_of(common([self.infer(element, scope) for element in node.elements]))

    def _map(self, node: MapLiteral, scope: Scope) -> Type:
        seen: set[str] = set()
        for entry in node.entries:
            if entry.key in seen:
                self._context.error(entry, "DUPLICATE_KEY", f"Duplicate map key '{entry.key}'")
            seen.add(entry.key)
            self.infer_value(entry.value, scope, "A map holds values")
        return MAP

    # ---- operators

    def _concat(self, node: ConcatExpr, scope: Scope) -> Type:
        kinds = [self.infer(operand, scope) for operand in node.operands]
        for operand, kind in zip(node.operands, kinds, strict=True):
            if kind.is_facet:
                self.refuse_step(operand, kind, "Operator '++' joins values")
        return operators.concat(kinds)

    def infer_value(self, node: Expression, scope: Scope, rule: str) -> Type:
        """The type of an expression that may be no step, nor a list of steps."""
        kind = self.infer(node, scope)
        if kind.innermost.is_facet:
            self.refuse_step(node, kind, rule)
        return kind

    def refuse_step(self, node: ASTNode, kind: Type, rule: str) -> None:
        """A step stands where only its values have a meaning."""
        kind = kind.innermost
        names = sorted(self._fields(kind) or ())
        fix = f"name one of its values: {', '.join(some(names))}" if names else "name one of its values"
        self._context.error(node, "STEP_AS_VALUE", f"{rule}, and this is a step of '{kind}'", fix)

    def _binary(self, node: BinaryExpr, scope: Scope) -> Type:
        left, right = self.infer(node.left, scope), self.infer(node.right, scope)
        return operators.binary(self._context, node, left, right)

    def _unary(self, node: UnaryExpr, scope: Scope) -> Type:
        return operators.unary(self._context, node, self.infer(node.operand, scope))

    def _index(self, node: IndexExpr, scope: Scope) -> Type:
        target, index = self.infer(node.target, scope), self.infer(node.index, scope)
        if isinstance(node.index, Literal) and isinstance(node.index.value, str) and not target.is_array:
            return self._member(node, target, node.index.value, f'["{node.index.value}"]')
        if target.is_open or target == MAP or target.is_schema:
            return UNKNOWN
        if target.element is None:
            self._context.error(node, "TYPE_INDEX", f"Type error: cannot index {target}")
            return UNKNOWN
        if not index.is_open and index not in (INT, LONG):
            self._context.error(node, "TYPE_INDEX", f"Type error: a list is indexed by an Int, got {index}")
        return target.element

    def _conditional(self, node: ConditionalExpr, scope: Scope) -> Type:
        self._require_boolean(node.condition, scope, "the condition before '?'")
        return common([self.infer(node.then, scope), self.infer(node.otherwise, scope)])

    def _require_boolean(self, node: Expression, scope: Scope, what: str) -> None:
        kind = self.infer(node, scope)
        if not kind.is_open and kind != BOOLEAN:
            self._context.error(node, "TYPE_CONDITION", f"Type error: {what} must be a Boolean, got {kind}")

    # ---- functions and comprehensions

    def _function(self, node: FunctionExpr, scope: Scope) -> Type:
        arguments = [self.infer(arg, scope) for arg in node.args]
        function = FUNCTIONS.get(node.name)
        if function is None:
            self._context.error(
                node,
                "FUNCTION_UNKNOWN",
                f"There is no function '{node.name}'; facets are called by a step of their own",
                self._context.suggest(node.name, lambda: FUNCTIONS),
            )
            return UNKNOWN
        most = None if function.variadic else len(function.parameters)
        if len(arguments) < function.required or (most is not None and len(arguments) > most):
            message = f"Wrong number of arguments, {len(arguments)}: the function is {function.signature}"
            self._context.error(node, "FUNCTION_ARGUMENTS", message)
            return UNKNOWN
        for position, (argument, given) in enumerate(zip(node.args, arguments, strict=True)):
            kind = function.kind(position)
            if kind is not None and not fits(given, kind):
                self._context.error(
                    argument,
                    "TYPE_FUNCTION_ARGUMENT",
                    f"Type error: argument {position + 1} of {function.signature} must be {kind}, got {given}",
                )
        result = function.result(arguments)
        for argument, given in zip(node.args, arguments, strict=True):
            if result == STRING and given.innermost.is_facet:
                self.refuse_step(argument, given, f"Function '{node.name}' makes a text of values")
        return result

    def _comprehension(self, node: Comprehension, scope: Scope) -> Type:
        source = self.infer(node.iterable, scope)
        if not source.is_open and not source.is_array and source != MAP:
            message = f"Type error: '{node.variable}' runs over a list or a map, got {source}"
            self._context.error(node.iterable, "TYPE_COMPREHENSION", message)
        inner = scope.inner()
        inner.bindings[node.variable] = variable(ENTRY if source == MAP else source.element or UNKNOWN)
        if node.condition is not None:
            self._require_boolean(node.condition, inner, "the condition after 'if'")
        return array_of(self.infer(node.element, inner))

    # ---- references

    def _reference(self, node: Reference, scope: Scope) -> Type:
        return self._input(node, scope) if node.is_input else self._step(node, scope)

    def _input(self, node: Reference, scope: Scope) -> Type:
        if scope.inputs is None or not node.path:
            return UNKNOWN
        name = node.path[0]
        if name not in scope.inputs:
            self._context.error(
                node,
                "REF_INVALID_INPUT",
                f"Invalid input reference '$.{name}': no parameter named '{name}'",
                self._input_fix(name, scope),
            )
            return UNKNOWN
        return self._follow(node, scope.inputs[name], 1)

    def _input_fix(self, name: str, scope: Scope) -> str | None:
        binding = scope.find(name)
        if binding is not None and not binding.is_step:
            return f"'$' is the step here: write '{name}' for the variable"
        if scope.parent is not None and scope.parent.has_input(name):
            return f"'$' is the step here: pass '{name}' to a step before it, and read it from that step"
        near = self._context.suggest(name, lambda: scope.inputs or ())
        if near is None and scope.parent is None:
            return "defaults and implicits cannot refer to parameters"
        return near

    def _step(self, node: Reference, scope: Scope) -> Type:
        name = node.path[0]
        binding = scope.find(name)
        if binding is None:
            self._undefined(node, name, scope)
            return UNKNOWN
        if len(node.path) == 1 or not binding.is_step:
            return self._follow(node, binding.type, 1)
        return self._attribute(node, binding)

    def _attribute(self, node: Reference, binding: Binding) -> Type:
        name, attribute = node.path[:2]
        if binding.attributes is None:
            return UNKNOWN
        if attribute not in binding.attributes:
            valid = sorted(binding.attributes)
            self._context.error(
                node,
                "REF_INVALID_STEP_ATTRIBUTE",
                f"Invalid attribute '{attribute}' for step '{name}': valid attributes are {valid}",
                self._context.suggest(attribute, lambda: valid),
            )
            return UNKNOWN
        if attribute in binding.unawaited:
            self._context.error(
                node,
                "CHILD_NOT_AWAITED",
                f"Step '{name}' does not wait for its run, so '{_spelled(node)}' has no value here",
                "leave out 'wait = false', or do without the value",
            )
        elif attribute in binding.missing:
            lacking = ", ".join(f"{each} = ..." for each in sorted(binding.missing))
            self._context.error(
                node,
                "CATCH_MISSING_RETURN",
                f"Step '{name}' has no '{attribute}' after its catch ran, and '{_spelled(node)}' is used here",
                f"end the catch with 'yield {binding.type.name.rpartition('.')[2]}({lacking})'",
            )
        return self._follow(node, binding.attributes[attribute], 2)

    def _undefined(self, node: Reference, name: str, scope: Scope) -> None:
        if name == scope.current:
            message = f"Step '{name}' cannot reference step '{name}' which is not defined before it"
            self._context.error(node, "REF_FORWARD_STEP", message, "a step cannot use its own result")
        elif scope.later_line(name) is None and scope.is_sibling(name):
            message = (
                f"Cross-block step reference: '{name}' is defined in a sibling andThen block and cannot be "
                "referenced here. Sibling blocks run side by side."
            )
            self._context.error(node, "REF_CROSS_BLOCK_STEP", message, "put both steps into one block")
        else:
            self._context.error(
                node,
                "REF_UNDEFINED_STEP",
                f"Reference to undefined step '{name}'",
                self._undefined_fix(name, scope),
            )

    def _undefined_fix(self, name: str, scope: Scope) -> str | None:
        if name in scope.repeated:
            return f"'until' sees no steps of the block: yield the value, and read it from '{scope.repeat}'"
        line = scope.later_line(name)
        if line is not None:
            return f"it is defined later, at line {line}; move it up"
        if scope.inputs is not None and name in scope.inputs:
            return f"write '$.{name}' for the parameter"
        if name in _CONSTANTS:
            return f"write '{_CONSTANTS[name]}'"
        return self._context.suggest(name, scope.known)

    # ---- paths

    def _follow(self, node: Reference, kind: Type, position: int) -> Type:
        """The type at the end of the rest of a path."""
        spelled = _spelled(node)
        for name in node.path[position:]:
            kind = self._member(node, kind, name, spelled)
        return kind

    def _member(self, node: Expression, kind: Type, name: str, spelled: str) -> Type:
        fields = self._fields(kind)
        if fields is None:
            return UNKNOWN
        if name in fields:
            return fields[name]
        if kind.is_schema:
            message = f"Field '{name}' not found on schema '{kind}'"
            self._context.warning(
                node, "SCHEMA_UNKNOWN_FIELD", message, self._context.suggest(name, lambda: fields)
            )
        elif kind.is_facet:
            message = f"Invalid attribute '{name}' of facet '{kind}': valid attributes are {sorted(fields)}"
            self._context.error(
                node, "REF_INVALID_FACET_REF_ATTRIBUTE", message, self._context.suggest(name, lambda: fields)
            )
        else:
            message = f"Invalid reference '{spelled}': {kind} has no attribute '{name}'"
            self._context.error(
                node, "REF_NO_ATTRIBUTES", message, self._context.suggest(name, lambda: fields)
            )
        return UNKNOWN

    def _fields(self, kind: Type) -> Mapping[str, Type] | None:
        """What a dot may name after a value of this type; None means anything."""
        if kind.is_open or kind in (MAP, NULL):
            return None
        if kind.fields is not None:
            return kind.fields
        return self._context.signatures.attributes(kind.symbol) if kind.symbol is not None else {}


def _spelled(node: Reference) -> str:
    return ("$." if node.is_input else "") + ".".join(node.path)
