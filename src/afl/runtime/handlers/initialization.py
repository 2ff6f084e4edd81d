"""The first states of a step: its arguments become its parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.handlers.event import EventTransmitHandler
from afl.runtime.handlers.system import assert_condition, write_log
from afl.runtime.program import paths, policies
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.declaration import Declaration, Field, constant_context
from afl.runtime.program.expression import EvaluationContext
from afl.runtime.program.values import misfit, unknown_name
from afl.runtime.types import AttributeValue, ObjectType

__all__ = [
    "EventTransmitHandler",
    "FacetInitializationBeginHandler",
    "FacetInitializationEndHandler",
    "StatementBeginHandler",
]


MAX_NESTED_CALLS = 100


class StatementBeginHandler(PassThroughHandler):
    """state.statement.Created"""


class FacetInitializationBeginHandler(StateHandler):
    """state.facet.initialization.Begin: evaluate arguments; add mixins', implicits' and default values."""

    def process_state(self) -> StateChangeResult:
        statement = self.context.statement(self.step)
        if statement is None:
            return self.transition()
        context = self._evaluation()
        values = {name: evaluate(context) for name, evaluate in statement.bindings}
        kind = self.step.object_type
        if kind == ObjectType.SYS_LOG:
            write_log(self.step, self.context, values)
        elif kind == ObjectType.SYS_ASSERT:
            assert_condition(statement, context)
        elif kind == ObjectType.SCHEMA_INSTANTIATION:
            self._make_value(values)
            return self.transition()
        elif kind == ObjectType.YIELD_ASSIGNMENT:
            self._check_yield(statement, values)
            self.check_size(values, "the yield to")
        else:
            self._check_nesting()
            self._complete_call(statement, values, context)
            self.check_size(values, "the input of")
        self.step.attributes.params = {name: AttributeValue(name, value) for name, value in values.items()}
        return self.transition()

    def _check_nesting(self) -> None:
        """Calls that nest without end fail here, before the run has grown too large to be stored."""
        path = paths.relative(self.step.id, self.context.workflow_id)
        if path.count("/") < MAX_NESTED_CALLS:
            return  # what is deeper has at least one segment per call
        calls = [call for call in paths.prefixes(path) if not paths.is_block(paths.key(call))]
        if len(calls) > MAX_NESTED_CALLS:
            statements = [self.context.program.place(call).statement for call in calls]
            cycle = _cycle([each.facet_name for each in statements if each is not None])
            raise StepFailure(
                f"{MAX_NESTED_CALLS} calls are nested, more are not allowed: {' -> '.join(cycle)}",
                "RecursionLimit",
            )

    def _evaluation(self) -> EvaluationContext:
        if self.step.object_type == ObjectType.FACET:
            owner = self.context.require_step(paths.parent(self.step.id))
            given = {name: attribute.value for name, attribute in owner.attributes.params.items()}
            return constant_context(given)
        return self.context.frame(paths.parent(self.step.id)).evaluation(self.step.id)

    def _complete_call(
        self, statement: StatementDefinition, values: dict[str, Any], context: EvaluationContext
    ) -> None:
        for mixin in statement.mixins:
            if mixin.target.startswith(policies.NAMESPACE):
                continue
            mixed = {name: evaluate(context) for name, evaluate in mixin.bindings}
            if mixin.alias:
                values[mixin.alias] = mixed
            else:
                for name, value in mixed.items():
                    values.setdefault(name, value)
        called = self.context.declaration(self.step)
        if called is None:
            if self.context.program.is_known:
                known = self.context.program.declarations
                raise StepFailure(unknown_name("facet", self.step.facet_name, known), "UnknownFacet")
            return
        self._fill_in(called, values)

    def _fill_in(self, called: Declaration, values: dict[str, Any]) -> None:
        for source in (self.context.program.supplied(called.name), called.defaults):
            for name, evaluate in source:
                if name not in values:
                    values[name] = evaluate(constant_context(values))
        missing = [field.name for field in called.params if field.name not in values]
        if missing:
            raise StepFailure(f"{called.name} needs a value for {', '.join(missing)}", "MissingArgument")
        self._check_types(called, called.params, values, "argument")

    def _check_yield(self, statement: StatementDefinition, values: dict[str, Any]) -> None:
        """What a yield sets fits the return clause of the facet that it names."""
        named = self.context.program.declaration(statement.facet_name)
        if named is not None:
            self._check_types(named, named.returns or (), values, "return")

    def _check_types(
        self, owner: Declaration, fields: Iterable[Field], values: dict[str, Any], word: str
    ) -> None:
        """Types are checked here too: a value of type `Json` may be anything."""
        schemas = self.context.program.schemas
        for field in fields:
            problem = misfit(values.get(field.name), field.type, schemas, f"{word} '{field.name}'")
            if problem:
                raise StepFailure(f"{owner.name}: {problem}", "TypeMismatch")

    def _make_value(self, values: dict[str, Any]) -> None:
        schema = self.context.declaration(self.step)
        if schema is not None:
            self._fill_in(schema, values)
        for name, value in values.items():
            self.step.attributes.set_return(name, value)


class FacetInitializationEndHandler(PassThroughHandler):
    """state.facet.initialization.End"""


def _cycle(called: list[str]) -> list[str]:
    """The end of a chain of calls, from the last time that its last facet was called before."""
    *before, last = called
    repeated = last in before
    return called[len(before) - 1 - before[::-1].index(last) :] if repeated else called[-5:]
