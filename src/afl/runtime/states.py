"""The states of steps and events, and which state follows which.

A plain step passes through every state of STEP_TRANSITIONS; one that calls an event facet waits at EventTransmit
for its agent; one with a body waits at statement blocks Continue for its blocks. A failed step ends in Error,
unless a `catch` takes it through CATCH_TRANSITIONS back to statement capture.
"""

from __future__ import annotations

from itertools import pairwise

from afl.runtime.types import ObjectType


class StepState:
    """State constants of a step."""

    CREATED = "state.statement.Created"
    FACET_INIT_BEGIN = "state.facet.initialization.Begin"
    FACET_INIT_END = "state.facet.initialization.End"
    FACET_SCRIPTS_BEGIN = "state.facet.scripts.Begin"
    FACET_SCRIPTS_END = "state.facet.scripts.End"
    STATEMENT_SCRIPTS_BEGIN = "state.statement.scripts.Begin"
    STATEMENT_SCRIPTS_END = "state.statement.scripts.End"
    MIXIN_BLOCKS_BEGIN = "state.mixin.blocks.Begin"
    MIXIN_BLOCKS_CONTINUE = "state.mixin.blocks.Continue"
    MIXIN_BLOCKS_END = "state.mixin.blocks.End"
    MIXIN_CAPTURE_BEGIN = "state.mixin.capture.Begin"
    MIXIN_CAPTURE_END = "state.mixin.capture.End"
    EVENT_TRANSMIT = "state.EventTransmit"
    STATEMENT_BLOCKS_BEGIN = "state.statement.blocks.Begin"
    STATEMENT_BLOCKS_CONTINUE = "state.statement.blocks.Continue"
    STATEMENT_BLOCKS_END = "state.statement.blocks.End"
    BLOCK_EXECUTION_BEGIN = "state.block.execution.Begin"
    BLOCK_EXECUTION_CONTINUE = "state.block.execution.Continue"
    BLOCK_EXECUTION_END = "state.block.execution.End"
    STATEMENT_CATCH_BEGIN = "state.statement.catch.Begin"
    STATEMENT_CATCH_CONTINUE = "state.statement.catch.Continue"
    STATEMENT_CATCH_END = "state.statement.catch.End"
    STATEMENT_CAPTURE_BEGIN = "state.statement.capture.Begin"
    STATEMENT_CAPTURE_END = "state.statement.capture.End"
    STATEMENT_END = "state.statement.End"
    STATEMENT_COMPLETE = "state.statement.Complete"
    STATEMENT_ERROR = "state.statement.Error"

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        """Whether a step in this state is over."""
        return state in (cls.STATEMENT_COMPLETE, cls.STATEMENT_ERROR)

    @classmethod
    def is_complete(cls, state: str) -> bool:
        """Whether a step in this state succeeded."""
        return state == cls.STATEMENT_COMPLETE

    @classmethod
    def is_error(cls, state: str) -> bool:
        """Whether a step in this state failed."""
        return state == cls.STATEMENT_ERROR


class EventState:
    """State constants of an event."""

    CREATED = "event.Created"
    DISPATCHED = "event.Dispatched"
    PROCESSING = "event.Processing"
    COMPLETED = "event.Completed"
    ERROR = "event.Error"

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        """Whether an event in this state is over."""
        return state in (cls.COMPLETED, cls.ERROR)


def _chain(*states: str) -> dict[str, str]:
    return dict(pairwise(states))


STEP_TRANSITIONS: dict[str, str] = _chain(
    StepState.CREATED,
    StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_END,
    StepState.FACET_SCRIPTS_BEGIN,
    StepState.FACET_SCRIPTS_END,
    StepState.MIXIN_BLOCKS_BEGIN,
    StepState.MIXIN_BLOCKS_CONTINUE,
    StepState.MIXIN_BLOCKS_END,
    StepState.MIXIN_CAPTURE_BEGIN,
    StepState.MIXIN_CAPTURE_END,
    StepState.EVENT_TRANSMIT,
    StepState.STATEMENT_BLOCKS_BEGIN,
    StepState.STATEMENT_BLOCKS_CONTINUE,
    StepState.STATEMENT_BLOCKS_END,
    StepState.STATEMENT_CAPTURE_BEGIN,
    StepState.STATEMENT_CAPTURE_END,
    StepState.STATEMENT_END,
    StepState.STATEMENT_COMPLETE,
)

CATCH_TRANSITIONS: dict[str, str] = _chain(
    StepState.STATEMENT_CATCH_BEGIN,
    StepState.STATEMENT_CATCH_CONTINUE,
    StepState.STATEMENT_CATCH_END,
    StepState.STATEMENT_CAPTURE_BEGIN,
)

BLOCK_TRANSITIONS: dict[str, str] = _chain(
    StepState.CREATED,
    StepState.BLOCK_EXECUTION_BEGIN,
    StepState.BLOCK_EXECUTION_CONTINUE,
    StepState.BLOCK_EXECUTION_END,
    StepState.STATEMENT_END,
    StepState.STATEMENT_COMPLETE,
)

YIELD_TRANSITIONS: dict[str, str] = _chain(
    StepState.CREATED,
    StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_END,
    StepState.FACET_SCRIPTS_BEGIN,
    StepState.FACET_SCRIPTS_END,
    StepState.STATEMENT_END,
    StepState.STATEMENT_COMPLETE,
)

EVENT_TRANSITIONS: dict[str, str] = {
    EventState.CREATED: EventState.DISPATCHED,
    EventState.DISPATCHED: EventState.PROCESSING,
    EventState.PROCESSING: EventState.COMPLETED,
}

_SHORT_PATH = frozenset({ObjectType.YIELD_ASSIGNMENT, ObjectType.SYS_LOG, ObjectType.SYS_ASSERT})


def get_next_state(state: str, transitions: dict[str, str]) -> str | None:
    """The state after this one; None for a terminal or unknown state."""
    following = transitions.get(state)
    return following if following is not None else CATCH_TRANSITIONS.get(state)


def select_transitions(object_type: str) -> dict[str, str]:
    """The table that steps of this type follow."""
    if ObjectType.is_block(object_type):
        return BLOCK_TRANSITIONS
    return YIELD_TRANSITIONS if object_type in _SHORT_PATH else STEP_TRANSITIONS
