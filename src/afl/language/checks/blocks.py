"""Blocks: their steps in order, inline bodies, foreach, repeat, when and catch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from afl.language.ast.blocks import (
    AndThenBlock,
    Block,
    Body,
    CatchClause,
    ForeachClause,
    RepeatClause,
    StepStmt,
    SysAssertStmt,
    SysLogStmt,
    WhenBlock,
    clauses,
)
from afl.language.ast.declarations import SchemaDecl
from afl.language.ast.expressions import Expression
from afl.language.checks.calls import Calls, Yields
from afl.language.checks.context import Context
from afl.language.checks.expressions import Expressions
from afl.language.checks.policies import constant_number
from afl.language.checks.scopes import Scope, step, variable
from afl.language.names import Symbol
from afl.language.types import BOOLEAN, ENTRY, INT, LONG, MAP, STRING, UNKNOWN, Type
from afl.language.yield_targets import YieldScope

CAUGHT: Mapping[str, Type] = {"error": STRING, "error_type": STRING}


class Blocks:
    """Checks everything inside a body."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.expressions = Expressions(context)
        self.calls = Calls(context, self.expressions)
        self.yields = Yields(context, self.calls)

    # ---- bodies

    def check_body(self, body: Body, scope: Scope, targets: YieldScope | None) -> None:
        """All `andThen` blocks of one owner; they run side by side and do not see each other."""
        parts = clauses(body)
        steps = [frozenset(_lines(part.block)) for part in parts]
        siblings = frozenset().union(*steps)
        for number, part in enumerate(parts):
            inner = scope.inner()
            inner.steps, inner.siblings = steps[number], siblings
            self._check_clause(part, inner, targets)

    def _check_clause(self, part: AndThenBlock, scope: Scope, targets: YieldScope | None) -> None:
        if part.foreach is not None:
            kind = self._element(part.foreach, scope)
            self._check_limit(part.foreach.limit, scope, "foreach", "it is how many elements run at a time")
            self._check_collect(part.foreach, targets)
            _bind(scope, part.foreach.variable, kind)
        if part.repeat is not None:
            targets = targets.without_outer() if targets is not None else None
            self._check_repeat(part.repeat, part.block, scope, targets)
        if part.when is not None:
            self.check_when(part.when, scope, targets)
        else:
            self.check_block(part.block, scope, targets)

    def _element(self, foreach: ForeachClause, scope: Scope) -> Type:
        """The type of the foreach variable."""
        iterable = self.expressions.infer(foreach.iterable, scope)
        if iterable.element is not None:
            return iterable.element
        if iterable == MAP:
            return ENTRY
        if not iterable.is_open:
            self._context.error(
                foreach, "FOREACH_NOT_ITERABLE", f"foreach needs a list or a map, got {iterable}"
            )
        return UNKNOWN

    def _check_limit(self, limit: Expression | None, scope: Scope, clause: str, meaning: str) -> None:
        if limit is None:
            return
        rule = f"{clause.upper()}_LIMIT"
        kind, value = self.expressions.infer(limit, scope), constant_number(limit)
        if not kind.is_open and kind not in (INT, LONG):
            self._context.error(limit, rule, f"The limit of a {clause} must be Int, got {kind}")
        elif value is not None and value < 1:
            message = f"The limit of a {clause} is {value}; expected at least 1"
            self._context.error(limit, rule, message, meaning)

    def _check_collect(self, foreach: ForeachClause, targets: YieldScope | None) -> None:
        """Failures go to a return of the owner of the block, as yields do."""
        if foreach.collect is None or targets is None:
            return
        owner = targets.owner
        self.yields.supplied.add((owner.full_name, foreach.collect))
        slot = self._context.signatures.returns(owner).get(foreach.collect)
        kind = slot.type if slot is not None else None
        if kind is not None and (
            kind.is_open or (kind.element is not None and _takes_failures(kind.element))
        ):
            return
        found = f"is {kind}" if kind is not None else "is none of its returns"
        message = f"The failures of this foreach go to '{foreach.collect}' of '{owner.name}', which {found}"
        fix = f"declare '{foreach.collect}: [sys.Failure]' in the return clause of '{owner.name}'"
        self._context.error(foreach, "COLLECT_RETURN", message, fix)

    def _check_repeat(
        self, repeat: RepeatClause, block: Block, scope: Scope, targets: YieldScope | None
    ) -> None:
        """The variable has the returns of the owner: after each iteration, as the block yielded them."""
        self._check_limit(repeat.limit, scope, "repeat", "it is how many iterations there may be")
        kind = UNKNOWN
        if targets is not None:
            returns = self._context.signatures.returns(targets.owner)
            fields = {name: slot.type for name, slot in returns.items()}
            kind = Type(f"the return clause of '{targets.owner.name}'", fields=fields)
            if not _yields_to(block, targets):
                self._context.error(
                    repeat,
                    "REPEAT_NO_YIELD",
                    f"The block yields nothing to '{targets.owner.name}', so 'until' would never change",
                    f"end it with 'yield {targets.owner.name}(...)'",
                )
        _bind(scope, repeat.variable, kind)
        head = scope.inner()
        head.repeat, head.repeated = repeat.variable, frozenset(_lines(block))
        self._condition(repeat.until, head, "REPEAT_UNTIL_NOT_BOOLEAN", "The condition after 'until'")

    def check_catch(self, catch: CatchClause | None, scope: Scope, targets: YieldScope | None) -> None:
        if catch is None:
            return
        if catch.when is not None:
            self.check_when(catch.when, scope, targets)
        if catch.block is not None:
            self.check_block(catch.block, scope.inner(), targets)

    # ---- when

    def check_when(self, when: WhenBlock, scope: Scope, targets: YieldScope | None) -> None:
        self._check_cases(when)
        for case in when.cases:
            if case.condition is not None:
                self._condition(case.condition, scope, "WHEN_CONDITION_NOT_BOOLEAN", "When case condition")
            self.check_block(case.block, scope.inner(), targets)

    def _check_cases(self, when: WhenBlock) -> None:
        defaults = [number for number, case in enumerate(when.cases) if case.is_default]
        if not when.cases:
            self._context.error(when, "WHEN_NO_CASES", "When block must have at least one case")
        elif not defaults:
            self._context.error(
                when, "WHEN_MISSING_DEFAULT", "When block must have a default case (case _ =>)"
            )
        elif len(defaults) > 1:
            second = when.cases[defaults[1]]
            self._context.error(
                second, "WHEN_MULTIPLE_DEFAULTS", "When block must have only one default case"
            )
        elif defaults[0] != len(when.cases) - 1:
            self._context.error(
                when.cases[defaults[0]], "WHEN_DEFAULT_NOT_LAST", "The default case must be the last one"
            )

    def _condition(self, node: Expression, scope: Scope, rule_id: str, what: str) -> None:
        kind = self.expressions.infer(node, scope)
        if not kind.is_open and kind != BOOLEAN:
            self._context.error(node, rule_id, f"{what} must be Boolean, got {kind}")

    # ---- statements

    def check_block(self, block: Block, scope: Scope, targets: YieldScope | None) -> None:
        """The statements in order, each seeing those before it; then the yields."""
        lines: dict[str, int | None] = {}
        later = _lines(block)
        scope.later = later
        for statement in block.steps:
            if isinstance(statement, StepStmt):
                self._check_name(statement, lines, scope)
                self._check_step(statement, scope, targets)
            elif isinstance(statement, SysLogStmt):
                self._check_log(statement, scope)
            else:
                self._check_assert(statement, scope)
        scope.current = None
        self.yields.check(block, scope, targets)

    def _check_name(self, statement: StepStmt, lines: dict[str, int | None], scope: Scope) -> None:
        line = statement.location.line if statement.location is not None else None
        bound = scope.bindings.get(statement.name)
        if bound is not None and not bound.is_step:
            message = f"Step '{statement.name}' has the name of the variable of its foreach or repeat"
            self._context.error(statement, "DUPLICATE_STEP_NAME", message, "rename the step or the variable")
        if statement.name in lines:
            message = (
                f"Duplicate step name '{statement.name}' (previously defined at line {lines[statement.name]})"
            )
            self._context.error(statement, "DUPLICATE_STEP_NAME", message)
        lines.setdefault(statement.name, line)

    def _check_step(self, statement: StepStmt, scope: Scope, targets: YieldScope | None) -> None:
        scope.current = statement.name
        symbol, attributes = self.calls.check(statement.call, scope)
        scope.current = None
        inner_targets = YieldScope(symbol, self._context.names, targets) if symbol is not None else None
        scope.bindings[statement.name] = step(symbol, attributes)
        missing = self._missing_returns(statement, symbol, inner_targets)
        unawaited = self._unawaited(statement, symbol, scope)
        known = {name: kind for name, kind in (attributes or {}).items() if name not in unawaited}
        inner = scope.with_inputs(known if symbol is not None and attributes is not None else None)
        self.check_body(statement.body, inner, inner_targets)
        self._check_step_catch(statement, inner, symbol, attributes, inner_targets)
        scope.bindings[statement.name] = step(symbol, attributes, missing, unawaited)

    def _unawaited(self, statement: StepStmt, symbol: Symbol | None, scope: Scope) -> frozenset[str]:
        """The returns that a step lacks since it does not wait for its run."""
        if symbol is None or self.calls.policies.is_awaited(statement.call, scope.namespace):
            return frozenset()
        return frozenset(self._context.signatures.returns(symbol)) - set(
            self._context.signatures.params(symbol)
        )

    def _missing_returns(
        self, statement: StepStmt, symbol: Symbol | None, targets: YieldScope | None
    ) -> frozenset[str]:
        """The returns that a step lacks after its catch, or else its facet's, ran."""
        if symbol is None or targets is None or isinstance(symbol.node, SchemaDecl):
            return frozenset()
        catch = statement.catch or symbol.node.catch
        if catch is None:
            return frozenset()
        blocks = [case.block for case in catch.when.cases] if catch.when is not None else [catch.block]
        returns = self._context.signatures.returns(symbol)
        params = self._context.signatures.params(symbol)
        needed = {name for name, slot in returns.items() if not slot.has_default and name not in params}
        provided = [_yielded(block, symbol, targets) for block in blocks if block is not None]
        return frozenset(name for name in needed if not all(name in each for each in provided))

    def _check_step_catch(
        self,
        statement: StepStmt,
        inner: Scope,
        symbol: Symbol | None,
        attributes: Mapping[str, Type] | None,
        targets: YieldScope | None,
    ) -> None:
        """Inside the catch the failed step also has `error` and `error_type`."""
        if statement.catch is None:
            return
        failed = {**attributes, **CAUGHT} if attributes is not None else None
        caught = inner.with_inputs(failed)
        caught.bindings[statement.name] = step(symbol, failed)
        self.check_catch(statement.catch, caught, targets)

    def _check_log(self, statement: SysLogStmt, scope: Scope) -> None:
        seen: set[str] = set()
        for number, arg in enumerate(statement.args):
            self.expressions.infer_value(arg.value, scope, "A log shows values")
            if not arg.name and number:
                message = "Only the first argument of sys.log may be given without a name"
                self._context.error(arg, "ARG_POSITIONAL", message)
            elif arg.name in seen:
                self._context.error(arg, "ARG_DUPLICATE", f"Duplicate argument '{arg.name}' for sys.log")
            seen.add(arg.name)

    def _check_assert(self, statement: SysAssertStmt, scope: Scope) -> None:
        self._condition(statement.condition, scope, "SYS_ASSERT_NOT_BOOLEAN", "sys.assert condition")


def _takes_failures(element: Type) -> bool:
    return element.is_open or (element.symbol is not None and element.symbol.full_name == "sys.Failure")


def _yielded(block: Block, owner: Symbol, targets: YieldScope) -> set[str]:
    """The returns of `owner` that a block yields, in its nested blocks too; all of them if an assertion may fail it."""
    found: set[str] = set()
    for statement in block.yield_stmts:
        target = targets.find(statement.call.name)
        if target is not None and target.owner is owner:
            first = [each.name for each in target.values()][:1]
            found |= {arg.name or (first[0] if first else "") for arg in statement.call.args}
    for step_ in block.steps:
        if isinstance(step_, SysAssertStmt):
            found |= {each.name for each in owner.returns or []}
        elif isinstance(step_, StepStmt) and step_.call.name.rpartition(".")[2] != owner.name:
            for part in clauses(step_.body):
                inner = [case.block for case in part.when.cases] if part.when is not None else [part.block]
                found = found.union(*(_yielded(each, owner, targets) for each in inner))
    return found


def _yields_to(block: Block, targets: YieldScope) -> bool:
    """Whether a block gives its owner a value, in its nested blocks too."""
    for statement in block.yield_stmts:
        target = targets.find(statement.call.name)
        if target is None or (
            target.owner is targets.owner and statement.call.args
        ):  # None is reported elsewhere
            return True
    return any(
        _yields_to(inner, targets)
        for step_ in block.steps
        if isinstance(step_, StepStmt)
        for inner in _blocks_of(step_)
    )


def _blocks_of(statement: StepStmt) -> Iterator[Block]:
    """The blocks of the bodies and the catch of a step."""
    parts: list[AndThenBlock | CatchClause] = [*clauses(statement.body)]
    if statement.catch is not None:
        parts.append(statement.catch)
    for part in parts:
        if part.when is not None:
            yield from (case.block for case in part.when.cases)
        elif part.block is not None:
            yield part.block


def _bind(scope: Scope, name: str, kind: Type) -> None:
    """A variable of the clause: written `x` or `$.x`."""
    if scope.inputs is not None:
        scope.inputs = {**scope.inputs, name: kind}
    scope.bindings[name] = variable(kind)


def _lines(block: Block) -> dict[str, int | None]:
    return {
        one.name: one.location.line if one.location is not None else None
        for one in block.steps
        if isinstance(one, StepStmt)
    }
