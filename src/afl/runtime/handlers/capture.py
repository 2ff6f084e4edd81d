"""state.statement.capture.*: what the yields of a step's blocks say becomes the step's returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.program import paths
from afl.runtime.program.declaration import constant_context
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.step import StepDefinition
from afl.runtime.types import AttributeValue, StepId

_BATCH = 1000


class StatementCaptureBeginHandler(StateHandler):
    """state.statement.capture.Begin: merge the yields in program order, foreach elements in element order."""

    def process_state(self) -> StateChangeResult:
        statement = self.context.statement(self.step)
        merged: dict[str, Any] = {}
        if self.step.progress is not None:
            for position, graph in enumerate(self.context.program.bodies_of(statement)):
                block_id = paths.child(self.step.id, str(position))
                for yielded in self._yields(block_id, graph, 0):
                    _merge(merged, _values(yielded))
                if graph.collect:
                    self._collect(merged, block_id, graph)
            catch = self.context.program.catch_of(statement)
            if catch is not None and self.context.known_step(paths.child(self.step.id, "!")) is not None:
                for yielded in self._yields(paths.child(self.step.id, "!"), catch, 0):
                    _merge(merged, _values(yielded))
        for name, value in merged.items():
            self.step.attributes.returns[name] = AttributeValue(name, value)
        self._default_returns()
        return self.transition()

    def _yields(self, block_id: StepId, graph: DependencyGraph, level: int) -> Iterator[StepDefinition]:
        """Completed yields in this block and below that are meant for the owner `level` owners up."""
        if graph.yields_up < level:
            return
        if graph.cases:
            for position, case in enumerate(graph.cases):
                yield from self._yields(paths.child(block_id, f"?{position}"), case.graph, level)
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

    def _collect(self, merged: dict[str, Any], block_id: StepId, graph: DependencyGraph) -> None:
        """What failed in a foreach that is complete, as values of the return that collects it."""
        block = self.context.known_step(block_id)
        if block is None or not block.is_complete:
            return
        failures: list[dict[str, Any]] = []
        for elements in _batches(block) if _errored(block) else ():
            loaded = self.context.preload(elements)
            for element in map(self.context.require_step, elements):
                if element.is_error:
                    failures.append(_failure(element, str(graph.variable)))
            self.context.forget(loaded)
        _merge(merged, {str(graph.collect): failures})

    def _in_block(self, block_id: StepId, graph: DependencyGraph, level: int) -> Iterator[StepDefinition]:
        for statement in graph.by_key.values():
            if statement.is_yield:
                if statement.level == level:
                    step = self.context.known_step(paths.child(block_id, statement.key))
                    if step is not None and step.is_complete:
                        yield step
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

    def _default_returns(self) -> None:
        called = self.context.declaration(self.step)
        for field in (called.returns or ()) if called is not None else ():
            if field.default is not None and field.name not in self.step.attributes.returns:
                given = {name: value.value for name, value in self.step.attributes.params.items()}
                self.step.attributes.set_return(field.name, field.default(constant_context(given)))


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


def _values(yielded: StepDefinition) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in yielded.attributes.params.items()}


def _merge(merged: dict[str, Any], values: dict[str, Any]) -> None:
    """Lists collect, everything else is overwritten."""
    for name, value in values.items():
        present = merged.get(name)
        if isinstance(value, list) and isinstance(present, list):
            present.extend(value)
        else:
            merged[name] = list(value) if isinstance(value, list) else value
