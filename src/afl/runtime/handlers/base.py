"""The base of all state handlers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from afl.kernel import codec
from afl.kernel.errors import FencedError, StoreError
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.step import StepDefinition

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext


NOT_OF_THE_STEP = (StoreError, FencedError)


class StateHandler(ABC):
    """What happens to a step in one state. An exception fails the step, never the evaluator.

    But for what the store raises: the evaluation ends there, and is made again when the store is back.
    """

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self.step = step
        self.context = context

    @property
    def state_name(self) -> str:
        """The name under which telemetry knows this state."""
        return type(self).__name__

    def process(self) -> StateChangeResult:
        """Process the state, with telemetry and with errors turned into a result."""
        telemetry = self.context.telemetry
        telemetry.log_state_begin(self.step, self.state_name)
        try:
            result = self.process_state()
        except NOT_OF_THE_STEP:
            raise
        except Exception as error:
            telemetry.log_error(self.step, self.state_name, error)
            return StateChangeResult(self.step, success=False, error=error)
        telemetry.log_state_end(self.step, self.state_name)
        return result

    @abstractmethod
    def process_state(self) -> StateChangeResult:
        """The logic of the state."""

    def check_size(self, values: dict[str, Any], what: str) -> None:
        """PayloadError, which fails this step, for values that are too large; at the commit it would fail the run."""
        codec.encode(values, what=f"{what} {self.step.facet_name}", levels=codec.MAX_LEVELS)

    def transition(self) -> StateChangeResult:
        """Go on to the next state."""
        self.step.request_state_change(True)
        return StateChangeResult(self.step)

    def stay(self, push: bool = False) -> StateChangeResult:
        """Stay in this state; with `push`, be looked at again in the next iteration."""
        self.step.request_state_change(False)
        self.step.transition.set_push_me(push)
        if push:
            self.context.wake(self.step.id)
        return StateChangeResult(self.step, continue_processing=push)

    def error(self, exception: Exception) -> StateChangeResult:
        """Fail the step."""
        self.step.mark_error(exception)
        return StateChangeResult(self.step, success=False, error=exception, continue_processing=False)


class PassThroughHandler(StateHandler):
    """A state in which nothing happens."""

    def process_state(self) -> StateChangeResult:
        return self.transition()
