"""The owner's side of its blocks: open them, wait for them, and take its catch block when they fail."""

from __future__ import annotations

from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.handlers.children import AwaitChildrenHandler
from afl.runtime.program import paths
from afl.runtime.program.dependency import DependencyGraph


class StatementBlocksBeginHandler(StateHandler):
    """state.statement.blocks.Begin: open one block per andThen."""

    def process_state(self) -> StateChangeResult:
        bodies = self.context.program.bodies_of(self.context.statement(self.step))
        if bodies:
            self.context.begin_children(self.step, len(bodies))
            for position, graph in enumerate(bodies):
                self._open(str(position), graph)
        return self.transition()

    def _open(self, segment: str, graph: DependencyGraph) -> None:
        self.context.create_step(
            paths.child(self.step.id, segment),
            graph.object_type,
            owner_id=self.step.id,
            owner_type=self.step.object_type,
        )


class StatementBlocksContinueHandler(AwaitChildrenHandler):
    """state.statement.blocks.Continue: wait for all blocks; then fail if one failed."""


class StatementBlocksEndHandler(PassThroughHandler):
    """state.statement.blocks.End"""


class StatementCatchBeginHandler(StateHandler):
    """state.statement.catch.Begin: open the catch block."""

    def process_state(self) -> StateChangeResult:
        graph = self.context.program.catch_of(self.context.statement(self.step))
        assert graph is not None  # fail() looks before it sends a step here
        self.context.begin_children(self.step, 1)
        self.context.create_step(
            paths.child(self.step.id, "!"),
            graph.object_type,
            owner_id=self.step.id,
            owner_type=self.step.object_type,
        )
        return self.transition()


class StatementCatchContinueHandler(AwaitChildrenHandler):
    """state.statement.catch.Continue: wait for the catch block; its failure is the step's."""


class StatementCatchEndHandler(PassThroughHandler):
    """state.statement.catch.End"""
