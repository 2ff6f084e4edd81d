"""`andThen repeat`: one iteration after the other, each beginning with what those before it yielded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from afl.runtime.errors import StepFailure
from afl.runtime.handlers.capture import Yields, default_returns
from afl.runtime.program import paths
from afl.runtime.program.expression import EvaluationContext
from afl.runtime.program.operators import boolean, text_of
from afl.runtime.step import BlockProgress, StepDefinition
from afl.runtime.types import ObjectType, StepId

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext

IDLE_ITERATIONS = 10_000
"""A repeat fails after so many iterations in a row in which no step waited for outside work."""


class Repeat:
    """The block step of a repeat. Its returns are what the iterations have yielded so far: the state of the loop."""

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self._step = step
        self._context = context
        self._frame = context.frame(step.id)
        self._graph = self._frame.graph

    def begin(self) -> None:
        """Open the first iteration."""
        self._limit()  # a bad one fails the step before anything has run
        self._step.progress = BlockProgress(0)
        self._open(self._values())

    def go_on(self) -> bool:
        """An iteration is complete: take what it yielded, and open the next one unless it was the last."""
        progress = self._progress
        ended = self._iteration(progress.opened - 1)
        for name, value in Yields(self._context).of_iteration(ended, self._graph).items():
            self._step.attributes.set_return(name, value)
        values = self._values()
        assert self._graph.until is not None
        after = replace(self._evaluation(), foreach_var=self._graph.variable, foreach_value=values)
        if boolean(self._graph.until(after), "'until'"):
            return False
        self._check_limits(progress)
        self._open(values)
        return True

    def _check_limits(self, progress: BlockProgress) -> None:
        limit = self._limit()
        if limit is not None and progress.opened >= limit:
            message = (
                f"the condition after 'until' is still false after {progress.opened:,} iterations, its limit"
            )
            raise StepFailure(message, "IterationLimit")
        progress.idle += 1
        if progress.idle >= IDLE_ITERATIONS:
            raise StepFailure(
                f"{progress.idle:,} iterations in a row in which no step waited for outside work; "
                "let the block call an event facet, or compute the value in an agent",
                "LoopWithoutProgress",
            )

    def _open(self, values: dict[str, Any]) -> None:
        progress = self._progress
        number = progress.opened
        iteration = self._context.create_step(
            self._iteration(number),
            ObjectType.BLOCK,
            owner_id=self._step.id,
            owner_type=self._step.object_type,
        )
        iteration.set_attribute(str(self._graph.variable), values)
        progress.active += 1
        progress.opened = progress.total = number + 1
        self._context.changes.touch(self._step)
        if progress.kept.start:
            self._context.remove(self._iteration(progress.kept.start - 1))

    @property
    def _progress(self) -> BlockProgress:
        assert self._step.progress is not None
        return self._step.progress

    def _iteration(self, number: int) -> StepId:
        return paths.child(self._step.id, f"#{number}")

    def _values(self) -> dict[str, Any]:
        """What the variable has: the owner's returns as they stand, else their defaults, else null."""
        owner = self._context.require_step(self._frame.owner_id)
        called = self._context.declaration(owner)
        declared = (called.returns or ()) if called is not None else ()
        values = dict.fromkeys((field.name for field in declared), None) | default_returns(
            owner, self._context
        )
        for attributes in (owner.attributes.returns, self._step.attributes.returns):
            values |= {name: attribute.value for name, attribute in attributes.items()}
        return values

    def _evaluation(self) -> EvaluationContext:
        return self._frame.evaluation(self._step.id)

    def _limit(self) -> int | None:
        if self._graph.limit is None:
            return None
        value = self._graph.limit(self._evaluation())
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise StepFailure(
                f"the limit of a repeat is a number of iterations, at least 1, got {text_of(value)}",
                "TypeMismatch",
            )
        return value
