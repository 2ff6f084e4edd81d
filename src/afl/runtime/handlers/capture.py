"""state.statement.capture.*: what the yields of a step's blocks say becomes the step's returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.program import paths
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.declaration import constant_context
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.step import StepDefinition
from afl.runtime.types import AttributeValue, StepId

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext

_BATCH = 1000
Values = dict[str, AttributeValue]


class StatementCaptureBeginHandler(StateHandler):
    """state.statement.capture.Begin: merge the yields in program order, foreach elements in element order.

    What a catch yields replaces what the blocks that failed have yielded.
    """

    def process_state(self) -> StateChangeResult:
        statement = self.context.statement(self.step)
        merged: dict[str, Any] = {}
        yields = Yields(self.context)
        if self.step.progress is not None:
            for position, graph in enumerate(self.context.program.bodies_of(statement)):
                yields.merge_into(merged, paths.child(self.step.id, str(position)), graph)
            catch = self.context.program.catch_of(statement)
            if catch is not None and self.context.known_step(paths.child(self.step.id, "!")) is not None:
                caught: dict[str, Any] = {}
                yields.merge_into(caught, paths.child(self.step.id, "!"), catch)
                merged |= caught
        self.check_size(merged, "the output of")
        for name, value in merged.items():
            self.step.attributes.returns[name] = AttributeValue(name, value)
        self._default_returns()
        self._empty_lists(statement)
        return self.transition()

    def _default_returns(self) -> None:
        for name, value in default_returns(self.step, self.context).items():
            self.step.attributes.set_return(name, value)

    def _empty_lists(self, statement: StatementDefinition | None) -> None:
        """A list that a foreach yields to is empty if none of its elements did."""
        called, returns = self.context.declaration(self.step), self.step.attributes.returns
        fields = (called.returns or ()) if called is not None else ()
        lists = {each.name for each in fields if not isinstance(each.type, str) and each.name not in returns}
        if not lists:
            return
        for position, graph in enumerate(self.context.program.bodies_of(statement)):
            block = self.context.known_step(paths.child(self.step.id, str(position)))
            if graph.iterable is not None and block is not None and block.is_complete:
                yields = (each for each in graph.every_statement() if each.is_yield)
                for name in lists.intersection(name for each in yields for name, _ in each.bindings):
                    self.step.attributes.set_return(name, [])


def default_returns(step: StepDefinition, context: ExecutionContext) -> dict[str, Any]:
    """The returns that a step lacks and that have a default."""
    called, given = context.declaration(step), step.attributes.returns
    fields = (called.returns or ()) if called is not None else ()
    inputs = {name: attribute.value for name, attribute in step.attributes.params.items()}
    return {
        field.name: field.default(constant_context(inputs))
        for field in fields
        if field.default is not None and field.name not in given
    }


class Yields:
    """Reads what the yields of blocks say."""

    def __init__(self, context: ExecutionContext) -> None:
        self.context = context

    def merge_into(self, merged: dict[str, Any], block_id: StepId, graph: DependencyGraph) -> None:
        """Add what a block yields to its owner, and the failures that it collects."""
        for values in self._yields(block_id, graph, 0):
            _merge(merged, _plain(values))
        _merge(merged, self._failures(block_id, graph))

    def of_iteration(self, block_id: StepId, graph: DependencyGraph) -> dict[str, Any]:
        """What one iteration of a repeat yields to its owner."""
        merged: dict[str, Any] = {}
        for values in self._in_block(block_id, graph, 0):
            _merge(merged, _plain(values))
        return merged

    def _yields(self, block_id: StepId, graph: DependencyGraph, level: int) -> Iterator[Values]:
        """Completed yields in this block and below that are meant for the owner `level` owners up."""
        if graph.yields_up < level:
            return
        if graph.cases:
            for position, case in enumerate(graph.cases):
                yield from self._yields(paths.child(block_id, f"?{position}"), case.graph, level)
            return
        if graph.until is not None:
            block = self.context.known_step(block_id)
            if block is not None and level == 0:
                yield block.attributes.returns
            return
        if graph.variable is not None:
            block = self.context.known_step(block_id)
            failures = graph.collect is not None and _errored(block) > 0
            for elements in _batches(block):
                loaded = self.context.preload(elements) if failures else []
                loaded += self._preload(elements, graph, level)
                for element in elements:
                    if not (failures and self.context.require_step(element).is_error):
                        yield from self._in_block(element, graph, level)
                self.context.forget(loaded)
            return
        yield from self._in_block(block_id, graph, level)

    def _failures(self, block_id: StepId, graph: DependencyGraph) -> dict[str, Any]:
        """What failed in a foreach that is complete, as the value of the return that collects it."""
        if graph.collect is None:
            return {}
        block = self.context.known_step(block_id)
        if block is None or not block.is_complete:
            return {}
        failures: list[dict[str, Any]] = []
        for elements in _batches(block) if _errored(block) else ():
            loaded = self.context.preload(elements)
            for element in map(self.context.require_step, elements):
                if element.is_error:
                    failures.append(_failure(element, str(graph.variable)))
            self.context.forget(loaded)
        return {graph.collect: failures}

    def _in_block(self, block_id: StepId, graph: DependencyGraph, level: int) -> Iterator[Values]:
        for statement in graph.by_key.values():
            if statement.is_yield:
                if statement.level == level:
                    step = self.context.known_step(paths.child(block_id, statement.key))
                    if step is not None and step.is_complete:
                        yield step.attributes.params
            else:
                for position, body in enumerate(statement.bodies):
                    inner = paths.child(block_id, f"{statement.key}/{position}")
                    yield from self._yields(inner, body, level + 1)
                if statement.catch is not None:
                    yield from self._yields(
                        paths.child(block_id, f"{statement.key}/!"), statement.catch, level + 1
                    )

    def _preload(self, elements: list[StepId], graph: DependencyGraph, level: int) -> list[StepId]:
        keys = [s.key for s in graph.by_key.values() if s.is_yield and s.level == level]
        return self.context.preload([paths.child(element, key) for element in elements for key in keys])


class StatementCaptureEndHandler(PassThroughHandler):
    """state.statement.capture.End"""


def _errored(block: StepDefinition | None) -> int:
    return block.progress.errored if block is not None and block.progress is not None else 0


def _batches(block: StepDefinition | None) -> Iterator[list[StepId]]:
    """The elements of a foreach, some at a time."""
    total = block.progress.total if block is not None and block.progress is not None else 0
    for first in range(0, total, _BATCH):
        assert block is not None
        yield [paths.child(block.id, f"#{i}") for i in range(first, min(first + _BATCH, total))]


def _failure(element: StepDefinition, variable: str) -> dict[str, Any]:
    """Why an element failed: a value of the schema sys.Failure."""
    error = element.transition.error
    failure = error if isinstance(error, StepFailure) else StepFailure(str(error or "failed"))
    return {
        "error_type": failure.error_type,
        "message": failure.message,
        "index": int(paths.key(element.id).lstrip("#")),
        "element": element.attributes.get_param(variable),
        "step": failure.step,
    }


def _plain(values: Values) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in values.items()}


def _merge(merged: dict[str, Any], values: dict[str, Any]) -> None:
    """Lists collect, everything else is overwritten."""
    for name, value in values.items():
        present = merged.get(name)
        if isinstance(value, list) and isinstance(present, list):
            present.extend(value)
        else:
            merged[name] = list(value) if isinstance(value, list) else value
