"""Calls, mixins and yields: their targets, and whether the arguments fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from afl.kernel.near_names import some
from afl.language.ast.blocks import Block, YieldStmt
from afl.language.ast.expressions import CallExpr, MixinCall, MixinSig, NamedArg
from afl.language.ast.node import ASTNode
from afl.language.checks.context import Context
from afl.language.checks.expressions import Expressions
from afl.language.checks.policies import Policies
from afl.language.checks.scopes import Scope
from afl.language.checks.signatures import Slot
from afl.language.names import FACETS, SCHEMA, Symbol
from afl.language.types import JSON, MAP, UNKNOWN, Type, assignable
from afl.language.yield_targets import YieldScope, YieldTarget


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who takes the values, in the words of the messages."""

    owner: str
    word: str = "argument"
    rule: str = "ARG"
    verb: str = "takes"
    link: str = "for"


class Calls:
    """Checks calls against the signatures of what they name."""

    def __init__(self, context: Context, expressions: Expressions) -> None:
        self._context = context
        self._expressions = expressions
        self.policies = Policies(context)

    def check(self, call: CallExpr, scope: Scope) -> tuple[Symbol | None, Mapping[str, Type] | None]:
        """The called symbol and the attributes the step will have."""
        symbol = self._context.find(call, call.name, scope.namespace)
        as_run = self.policies.child_run(call, scope.namespace) is not None
        mixed = [self.check_mixin(mixin, scope, symbol, as_run=as_run) for mixin in call.mixins]
        extra = {name: kind for types in reversed(mixed) for name, kind in types.items()}
        self.policies.check_exclusive(call.mixins, scope.namespace)
        if symbol is None:
            self.infer_all(call.args, scope)
            return None, None
        self._check_kind(call, symbol)
        implied = self._context.implied.get(symbol.full_name, {})
        bound = self.check_arguments(call, symbol, scope, extra.keys() | implied.keys())
        self._check_mixed(call, symbol, mixed, bound)
        if symbol.is_built_in:
            self.policies.check_built_in(call, symbol)
        attributes = self._context.signatures.attributes(symbol)
        if attributes is None or not extra:
            return symbol, attributes
        return symbol, {**extra, **attributes}

    def _check_mixed(
        self, call: CallExpr, symbol: Symbol, mixed: list[dict[str, Type]], bound: Collection[str]
    ) -> None:
        """What a mixin supplies in place of an argument fits like one; its alias is no other name of the step."""
        signatures = self._context.signatures
        slots, seen = signatures.params(symbol), set(bound)
        for mixin, types in zip(call.mixins, mixed, strict=True):
            for name in sorted(types.keys() & slots.keys() - seen - {mixin.alias}):
                self._check_type(mixin, name, types[name], slots[name].type, _receiver(call, symbol))
            seen |= types.keys()
        taken = (slots, signatures.returns(symbol), signatures.aliases(symbol))
        check_aliases(self._context, call.mixins, [name for names in taken for name in names])

    def _check_kind(self, call: CallExpr, symbol: Symbol) -> None:
        if symbol.is_policy:
            message = f"'{symbol.full_name}' is a policy and cannot be called as a step"
            self._context.error(
                call, "POLICY_AS_STEP", message, f"write it after a call: 'with {symbol.name}(...)'"
            )
        if symbol.kind == SCHEMA and call.mixins:
            message = f"Schema instantiation '{call.name}' cannot have mixins"
            self._context.error(call, "SCHEMA_INSTANTIATION_NO_MIXINS", message)

    def check_mixin(
        self, mixin: MixinSig | MixinCall, scope: Scope, owner: Symbol | None, *, as_run: bool = False
    ) -> dict[str, Type]:
        """What the mixin adds to the attributes of a step of its owner."""
        symbol = self._context.find(mixin, mixin.name, scope.namespace, FACETS)
        if symbol is None:
            return self.infer_all(mixin.args, scope)
        types = self.check_arguments(mixin, symbol, scope, ())
        if symbol.is_policy:
            self.policies.check_effect(mixin, symbol, owner, as_run=as_run)
            self.policies.check_values(mixin, symbol)
            return {}
        return {mixin.alias: MAP} if mixin.alias is not None else types

    # ---- arguments

    def infer_all(self, args: Sequence[NamedArg], scope: Scope) -> dict[str, Type]:
        return {arg.name: self._expressions.infer(arg.value, scope) for arg in args}

    def check_arguments(
        self, call: CallExpr | MixinSig | MixinCall, symbol: Symbol, scope: Scope, supplied: Collection[str]
    ) -> dict[str, Type]:
        """The types by parameter name; arguments that are unknown, double, unfit or missing are reported."""
        slots = self._context.signatures.params(symbol)
        receiver = _receiver(call, symbol)
        bound = self.bind(call.args, receiver, slots, scope)
        for slot in self._context.signatures.required(symbol):
            if slot.name not in bound and slot.name not in supplied:
                message = f"Missing argument '{slot.name}' for {receiver.owner}"
                self._context.error(call, "ARG_MISSING", message, f"it is of type {slot.type}")
        return bound

    def bind(
        self, args: Sequence[NamedArg], receiver: Receiver, slots: Mapping[str, Slot], scope: Scope
    ) -> dict[str, Type]:
        """Fit each value to its slot; a positional one takes the first."""
        bound: dict[str, Type] = {}
        for number, arg in enumerate(args):
            kind = self._expressions.infer(arg.value, scope)
            name = arg.name or self._positional(arg, number, receiver, slots)
            if name is None:
                continue
            if name in bound:
                message = f"Duplicate {receiver.word} '{name}' {receiver.link} {receiver.owner}"
                self._context.error(arg, f"{receiver.rule}_DUPLICATE", message)
            bound[name] = kind
            if name in slots:
                self._check_type(arg, name, kind, slots[name].type, receiver)
            else:
                self._unknown(arg, name, receiver, slots)
        return bound

    def _positional(
        self, arg: NamedArg, number: int, receiver: Receiver, slots: Mapping[str, Slot]
    ) -> str | None:
        if number == 0 and slots:
            return next(iter(slots))
        message = (
            f"Only the first {receiver.word} {receiver.link} {receiver.owner} may be given without a name"
        )
        rule = "POSITIONAL"
        if not slots:
            rule, message = "UNKNOWN", f"Unknown {receiver.word} {receiver.link} {receiver.owner}"
        self._context.error(arg, f"{receiver.rule}_{rule}", message, _signature(receiver, slots))
        return None

    def _unknown(self, arg: NamedArg, name: str, receiver: Receiver, slots: Mapping[str, Slot]) -> None:
        message = f"Unknown {receiver.word} '{name}' {receiver.link} {receiver.owner}"
        fix = self._context.suggest(name, lambda: slots) or _signature(receiver, slots)
        self._context.error(arg, f"{receiver.rule}_UNKNOWN", message, fix)

    def _check_type(self, arg: ASTNode, name: str, kind: Type, wanted: Type, receiver: Receiver) -> None:
        what = f"{receiver.word.capitalize()} '{name}' of {receiver.owner}"
        if wanted.is_facet and wanted.symbol is not None and kind.is_facet and kind.symbol is not None:
            if not self._context.signatures.mixes_in(kind.symbol, wanted.symbol):
                message = f"{what} must be a step of facet '{wanted}', got one of '{kind}'"
                self._context.error(arg, "STEP_REF_FACET_MISMATCH", message)
        elif wanted.innermost == JSON and kind.innermost.is_facet:
            self._expressions.refuse_step(arg, kind, f"{what} takes a value")
        elif not assignable(kind, wanted):
            self._context.error(arg, f"{receiver.rule}_TYPE", f"{what} must be {wanted}, got {kind}")


def check_aliases(context: Context, mixins: Iterable[MixinSig | MixinCall], taken: Iterable[str]) -> None:
    """An alias is read like a parameter, so it may not be called like one."""
    used = set(taken)
    for mixin in mixins:
        if mixin.alias is None:
            continue
        if mixin.alias in used:
            message = f"Mixin alias '{mixin.alias}' conflicts with a parameter, return or other alias"
            context.error(mixin, "MIXIN_ALIAS_NAME_CONFLICT", message)
        used.add(mixin.alias)


def _receiver(call: CallExpr | MixinSig | MixinCall, symbol: Symbol) -> Receiver:
    return Receiver(f"{'schema' if symbol.kind == SCHEMA else 'facet'} '{call.name}'")


def _signature(receiver: Receiver, slots: Mapping[str, Slot]) -> str:
    shown = ", ".join(
        some(f"{name}: {slot.type}" if slot.type != UNKNOWN else name for name, slot in slots.items())
    )
    return f"{receiver.owner} {receiver.verb} {f'({shown})' if shown else 'nothing'}"


class Yields:
    """Checks the yields of a block and remembers which returns they supply."""

    def __init__(self, context: Context, calls: Calls) -> None:
        self._context = context
        self._calls = calls
        self.supplied: set[tuple[str, str]] = set()

    def check(self, block: Block, scope: Scope, targets: YieldScope | None) -> None:
        seen: set[str] = set()
        for statement in block.yield_stmts:
            name = statement.call.name.rpartition(".")[2]
            if name in seen:
                message = (
                    f"Duplicate yield target '{statement.call.name}': "
                    "each yield must reference a different facet or mixin"
                )
                self._context.error(statement, "YIELD_DUPLICATE_TARGET", message)
            seen.add(name)
            self._check_one(statement, scope, targets)

    def _check_one(self, statement: YieldStmt, scope: Scope, targets: YieldScope | None) -> None:
        call = statement.call
        target = targets.find(call.name) if targets is not None else None
        if target is None or targets is None:
            if targets is not None:
                self._invalid(statement, targets)
            self._calls.infer_all(call.args, scope)
            return
        if targets.is_ambiguous(call.name):
            message = f"Ambiguous yield target '{call.name}': it is mixed in more than once"
            self._context.error(statement, "YIELD_TARGET_AMBIGUOUS", message, "yield to an alias")
        slots = self._slots(target)
        receiver = Receiver(f"'{call.name}'", "return", "YIELD", "returns", "of")
        bound = self._calls.bind(call.args, receiver, slots, scope)
        self.supplied.update((target.owner.full_name, name) for name in bound)

    def _slots(self, target: YieldTarget) -> dict[str, Slot]:
        """What the yield may set, by name."""
        signatures = self._context.signatures
        slots: dict[str, Slot] = {}
        if target.is_mixin and target.symbol is not None:
            slots = signatures.returns(target.symbol) | signatures.params(target.symbol)
        return slots | signatures.returns(target.owner)

    def _invalid(self, statement: YieldStmt, targets: YieldScope) -> None:
        name, valid = statement.call.name, targets.names()
        message = (
            f"Invalid yield target '{name}': must be the containing facet or one of its mixins. "
            f"Valid targets are: {valid}"
        )
        self._context.error(
            statement, "YIELD_INVALID_TARGET", message, self._context.suggest(name, lambda: valid)
        )
