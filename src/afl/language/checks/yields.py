"""Yields: whom they may name, and whether the values are returns of it."""

from __future__ import annotations

from afl.language.ast.blocks import Block, YieldStmt
from afl.language.checks.calls import Calls, Receiver
from afl.language.checks.context import Context
from afl.language.checks.scopes import Scope
from afl.language.checks.signatures import Slot
from afl.language.yield_targets import YieldScope, YieldTarget


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
