"""One handler per state; `get_handler` finds the one for a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.handlers.block_execution import (
    BlockExecutionBeginHandler,
    BlockExecutionContinueHandler,
    BlockExecutionEndHandler,
)
from afl.runtime.handlers.blocks import (
    StatementBlocksBeginHandler,
    StatementBlocksContinueHandler,
    StatementBlocksEndHandler,
    StatementCatchBeginHandler,
    StatementCatchContinueHandler,
    StatementCatchEndHandler,
)
from afl.runtime.handlers.capture import StatementCaptureBeginHandler, StatementCaptureEndHandler
from afl.runtime.handlers.completion import StatementCompleteHandler, StatementEndHandler
from afl.runtime.handlers.event import EventTransmitHandler
from afl.runtime.handlers.initialization import (
    FacetInitializationBeginHandler,
    FacetInitializationEndHandler,
    StatementBeginHandler,
)
from afl.runtime.handlers.mixins import (
    MixinBlocksBeginHandler,
    MixinBlocksContinueHandler,
    MixinBlocksEndHandler,
    MixinCaptureBeginHandler,
    MixinCaptureEndHandler,
)
from afl.runtime.handlers.scripts import (
    FacetScriptsBeginHandler,
    FacetScriptsEndHandler,
    StatementScriptsBeginHandler,
    StatementScriptsEndHandler,
)
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext

STATE_HANDLERS: dict[str, type[StateHandler]] = {
    StepState.CREATED: StatementBeginHandler,
    StepState.FACET_INIT_BEGIN: FacetInitializationBeginHandler,
    StepState.FACET_INIT_END: FacetInitializationEndHandler,
    StepState.FACET_SCRIPTS_BEGIN: FacetScriptsBeginHandler,
    StepState.FACET_SCRIPTS_END: FacetScriptsEndHandler,
    StepState.STATEMENT_SCRIPTS_BEGIN: StatementScriptsBeginHandler,
    StepState.STATEMENT_SCRIPTS_END: StatementScriptsEndHandler,
    StepState.MIXIN_BLOCKS_BEGIN: MixinBlocksBeginHandler,
    StepState.MIXIN_BLOCKS_CONTINUE: MixinBlocksContinueHandler,
    StepState.MIXIN_BLOCKS_END: MixinBlocksEndHandler,
    StepState.MIXIN_CAPTURE_BEGIN: MixinCaptureBeginHandler,
    StepState.MIXIN_CAPTURE_END: MixinCaptureEndHandler,
    StepState.EVENT_TRANSMIT: EventTransmitHandler,
    StepState.STATEMENT_BLOCKS_BEGIN: StatementBlocksBeginHandler,
    StepState.STATEMENT_BLOCKS_CONTINUE: StatementBlocksContinueHandler,
    StepState.STATEMENT_BLOCKS_END: StatementBlocksEndHandler,
    StepState.BLOCK_EXECUTION_BEGIN: BlockExecutionBeginHandler,
    StepState.BLOCK_EXECUTION_CONTINUE: BlockExecutionContinueHandler,
    StepState.BLOCK_EXECUTION_END: BlockExecutionEndHandler,
    StepState.STATEMENT_CATCH_BEGIN: StatementCatchBeginHandler,
    StepState.STATEMENT_CATCH_CONTINUE: StatementCatchContinueHandler,
    StepState.STATEMENT_CATCH_END: StatementCatchEndHandler,
    StepState.STATEMENT_CAPTURE_BEGIN: StatementCaptureBeginHandler,
    StepState.STATEMENT_CAPTURE_END: StatementCaptureEndHandler,
    StepState.STATEMENT_END: StatementEndHandler,
    StepState.STATEMENT_COMPLETE: StatementCompleteHandler,
}


def get_handler(state: str, step: StepDefinition, context: ExecutionContext) -> StateHandler | None:
    """The handler of a state for a step; None for a state without one."""
    kind = STATE_HANDLERS.get(state)
    return kind(step, context) if kind is not None else None


__all__ = ["STATE_HANDLERS", "PassThroughHandler", "StateHandler", "get_handler"]
