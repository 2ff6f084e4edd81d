"""State changers: they drive one step through its states until it waits, ends or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.runtime.errors import InvalidTransitionError
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers import STATE_HANDLERS, PassThroughHandler, get_handler
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


def _paths(table: dict[str, str], idle: frozenset[str] = frozenset()) -> dict[str, tuple[str, ...]]:
    """From each state, the states up to the next in which something happens to the step.

    Handlers of the states between do nothing and are not called: 20 % of the time of an evaluation without events.
    """
    paths = {}
    for state, following in table.items():
        path = [following]
        while path[-1] in idle or issubclass(STATE_HANDLERS[path[-1]], PassThroughHandler):
            path.append(table[path[-1]])
        paths[state] = tuple(path)
    return paths


_BLOCK_PATHS = _paths(BLOCK_TRANSITIONS)
_YIELD_PATHS = _paths(YIELD_TRANSITIONS)
_STEP_PATHS = {
    (mixins, body): _paths(
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
        step, transition, paths = self.step, self.step.transition, self.paths()
        while True:
            if transition.request_transition:
                path = paths.get(step.state)
                following = path[-1] if path else self.select_state()
                if following is None:
                    return StateChangeResult(step)
                self._log_transitions(path or (following,))
                step.change_state(following)
                transition.request_transition = False
            during = step.state
            result = self.execute_state(during)
            if not result.success:
                self.context.fail(step, result.error or Exception("failed without a reason"), during)
                return result
            if not (transition.request_transition and result.continue_processing):
                if step.is_complete:
                    self.context.report(step)
                return result

    def paths(self) -> dict[str, tuple[str, ...]]:
        """From each state, the states up to the next in which something happens to this step."""
        return {}

    def select_state(self) -> str | None:
        """The state after the current one."""
        return get_next_state(self.step.state, select_transitions(self.step.object_type))

    def _log_transitions(self, path: tuple[str, ...]) -> None:
        telemetry, state = self.context.telemetry, self.step.state
        if telemetry.enabled:
            for following in path:
                telemetry.log_state_transition(self.step, state, following)
                if following != path[-1]:
                    telemetry.log_state_begin(self.step, STATE_HANDLERS[following].__name__)
                    telemetry.log_state_end(self.step, STATE_HANDLERS[following].__name__)
                state = following

    def execute_state(self, state: str) -> StateChangeResult:
        """Run the handler of a state."""
        handler = get_handler(state, self.step, self.context)
        if handler is None:
            error = InvalidTransitionError(self.step.id, self.step.transition.original_state, state)
            return StateChangeResult(self.step, success=False, error=error)
        return handler.process()


class StepStateChanger(StateChanger):
    """Drives a statement, a mixin or the root."""

    def paths(self) -> dict[str, tuple[str, ...]]:
        if select_transitions(self.step.object_type) is not STEP_TRANSITIONS:
            return _YIELD_PATHS
        return _STEP_PATHS[self.context.phases(self.step)]


class BlockStateChanger(StateChanger):
    """Drives a block."""

    def paths(self) -> dict[str, tuple[str, ...]]:
        return _BLOCK_PATHS


class YieldStateChanger(StateChanger):
    """Drives a yield."""

    def paths(self) -> dict[str, tuple[str, ...]]:
        return _YIELD_PATHS


_CHANGERS: dict[str, type[StateChanger]] = {
    **dict.fromkeys(ObjectType.BLOCKS, BlockStateChanger),
    ObjectType.YIELD_ASSIGNMENT: YieldStateChanger,
}


def get_state_changer(step: StepDefinition, context: ExecutionContext) -> StateChanger:
    """The changer for a step."""
    return _CHANGERS.get(step.object_type, StepStateChanger)(step, context)
