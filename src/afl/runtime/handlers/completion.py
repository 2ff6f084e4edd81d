"""The last states of a step."""

from __future__ import annotations

from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.handlers.event import EventTransmitHandler

__all__ = ["EventTransmitHandler", "StatementCompleteHandler", "StatementEndHandler"]


class StatementEndHandler(PassThroughHandler):
    """state.statement.End"""


class StatementCompleteHandler(StateHandler):
    """state.statement.Complete: the step is over; whoever waits for it acts in the next iteration."""

    def process_state(self) -> StateChangeResult:
        self.step.mark_completed()
        return StateChangeResult(self.step, continue_processing=False)
