"""State changers: they drive one step through its states until it waits, ends or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.runtime.errors import InvalidTransitionError
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers import STATE_HANDLERS, PassThroughHandler, get_handler
from afl.runtime.handlers.base import NOT_OF_THE_STEP
from afl.runtime.states import (
    BLOCK_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    StepState,
    get_next_state,
    select_transitions,
)
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext

__all__ = [
    "BlockStateChanger",
    "StateChangeResult",
    "StateChanger",
    "StepStateChanger",
    "YieldStateChanger",
    "get_state_changer",
]


_MIXIN_STATES = frozenset(
    {StepState.MIXIN_BLOCKS_BEGIN, StepState.MIXIN_BLOCKS_CONTINUE, StepState.MIXIN_CAPTURE_BEGIN}
)
_BODY_STATES = frozenset(
    {
        StepState.STATEMENT_BLOCKS_BEGIN,
        StepState.STATEMENT_BLOCKS_CONTINUE,
        StepState.STATEMENT_CAPTURE_BEGIN,
    }
)


def _shortened(table: dict[str, str], idle: frozenset[str] = frozenset()) -> dict[str, str]:
    """From each state to the next in which something happens; nobody but telemetry sees the ones between."""
    quick = {}
    for state, following in table.items():
        target = following
        while target in idle or issubclass(STATE_HANDLERS[target], PassThroughHandler):
            target = table[target]
        quick[state] = target
    return quick


_QUICK_BLOCK = _shortened(BLOCK_TRANSITIONS)
_QUICK_YIELD = _shortened(YIELD_TRANSITIONS)
_QUICK_STEP = {
    (mixins, body): _shortened(
        STEP_TRANSITIONS, (frozenset() if mixins else _MIXIN_STATES) | (frozenset() if body else _BODY_STATES)
    )
    for mixins in (True, False)
    for body in (True, False)
}


class StateChanger:
    """Drives a step: go to the next state if asked for, run that state's handler, and so on."""

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self.step = step
        self.context = context

    def process(self) -> StateChangeResult:
        """Run until the step waits, ends or fails. The context is told of its end or failure."""
        step, transition = self.step, self.step.transition
        traced = self.context.telemetry.enabled
        quick = {} if traced else self.shortcuts()
        while True:
            if transition.request_transition:
                following = quick.get(step.state) or self.select_state()
                if following is None:
                    return StateChangeResult(step)
                if traced:
                    self.context.telemetry.log_state_transition(step, step.state, following)
                step.change_state(following)
                transition.request_transition = False
            during = step.state
            result = self.execute_state(during) if traced else self._handled(during)
            if not result.success:
                self.context.fail(step, result.error or Exception("failed without a reason"), during)
                return result
            if not (transition.request_transition and result.continue_processing):
                if step.is_complete:
                    self.context.report(step)
                return result

    def shortcuts(self) -> dict[str, str]:
        """From state to state without those in which nothing happens to this step."""
        return {}

    def select_state(self) -> str | None:
        """The state after the current one."""
        return get_next_state(self.step.state, select_transitions(self.step.object_type))

    def _handled(self, state: str) -> StateChangeResult:
        """`execute_state` where nobody traces it: this is the innermost of all loops."""
        kind = STATE_HANDLERS.get(state)
        if kind is None:
            return self.execute_state(state)
        try:
            return kind(self.step, self.context).process_state()
        except NOT_OF_THE_STEP:
            raise
        except Exception as error:
            return StateChangeResult(self.step, success=False, error=error)

    def execute_state(self, state: str) -> StateChangeResult:
        """Run the handler of a state."""
        handler = get_handler(state, self.step, self.context)
        if handler is None:
            error = InvalidTransitionError(self.step.id, self.step.transition.original_state, state)
            return StateChangeResult(self.step, success=False, error=error)
        return handler.process()


class StepStateChanger(StateChanger):
    """Drives a statement, a mixin or the root."""

    def shortcuts(self) -> dict[str, str]:
        if select_transitions(self.step.object_type) is not STEP_TRANSITIONS:
            return _QUICK_YIELD
        return _QUICK_STEP[self.context.phases(self.step)]


class BlockStateChanger(StateChanger):
    """Drives a block."""

    def shortcuts(self) -> dict[str, str]:
        return _QUICK_BLOCK


class YieldStateChanger(StateChanger):
    """Drives a yield."""

    def shortcuts(self) -> dict[str, str]:
        return _QUICK_YIELD


_CHANGERS: dict[str, type[StateChanger]] = {
    **dict.fromkeys(ObjectType.BLOCKS, BlockStateChanger),
    ObjectType.YIELD_ASSIGNMENT: YieldStateChanger,
}


def get_state_changer(step: StepDefinition, context: ExecutionContext) -> StateChanger:
    """The changer for a step."""
    return _CHANGERS.get(step.object_type, StepStateChanger)(step, context)
