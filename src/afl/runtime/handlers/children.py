"""Waiting for what a step has opened: its mixins, its blocks, its catch block."""

from __future__ import annotations

from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import StateHandler


class AwaitChildrenHandler(StateHandler):
    """Stay until all of them are over; then go on, or fail with the first failure in program order."""

    def process_state(self) -> StateChangeResult:
        self.context.settle_children(self.step)
        progress = self.step.progress
        if progress is None:
            return self.transition()
        if progress.active:
            return self.stay()
        if progress.errored:
            return self.error(self.step.transition.error or Exception(f"{progress.errored} block(s) errored"))
        return self.transition()
