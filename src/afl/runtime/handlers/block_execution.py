"""The block's side: create its steps as soon as what they refer to is complete, until all are done."""

from __future__ import annotations

from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.frame import Frame, Standing
from afl.runtime.evaluation.rescan import resume_parked
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.handlers.repeat import Repeat
from afl.runtime.program import paths
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.operators import boolean
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress
from afl.runtime.types import ObjectType, StepId


class BlockHandler(StateHandler):
    """What the states of a block share."""

    def frame(self) -> Frame:
        """This block in memory."""
        return self.context.frame(self.step.id)

    @property
    def is_loop(self) -> bool:
        """Whether this is the foreach itself, rather than one element of it."""
        return self.step.object_type == ObjectType.AND_MAP

    @property
    def is_repeat(self) -> bool:
        """Whether this is the repeat itself, rather than one iteration of it."""
        return self.step.object_type == ObjectType.AND_REPEAT

    def create(self, statement: StatementDefinition, frame: Frame) -> None:
        """Create the step of a statement."""
        progress = self.step.progress
        assert progress is not None
        progress.opened += 1
        progress.active += 1
        object_type = statement.object_type
        called = self.context.program.declarations.get(statement.facet_name)
        if object_type == ObjectType.VARIABLE_ASSIGNMENT and called is not None and called.is_schema:
            object_type = ObjectType.SCHEMA_INSTANTIATION
        self.context.create_step(
            paths.child(self.step.id, statement.key),
            object_type,
            statement=statement,
            owner_id=frame.owner_id,
            facet_name=statement.facet_name,
        )

    def open_elements(self) -> bool:
        """Open the next foreach elements, a window at a time so that no commit grows without bound.

        Whether more could be opened at once: neither are they all open, nor is the foreach at its limit.
        """
        progress = self.step.progress
        assert progress is not None
        frame = self.frame()
        room = frame.limit() - progress.active
        if progress.parked:
            resumed = resume_parked(self.context, self.step, min(room, progress.parked))
            progress.active += resumed
            room -= resumed
        allowed = min(progress.total, progress.opened + room)
        last = min(allowed, progress.opened + self.context.foreach_window)
        if last <= progress.opened:
            return False
        items, graph = frame.elements(), frame.graph
        for position in range(progress.opened, last):
            element = self.context.create_step(
                paths.child(self.step.id, f"#{position}"),
                ObjectType.BLOCK,
                owner_id=self.step.id,
                owner_type=self.step.object_type,
            )
            element.set_attribute(str(graph.variable), items[position])
        progress.active += last - progress.opened
        progress.opened = last
        self.context.changes.touch(self.step)
        return last < allowed

    def conclude(self) -> StateChangeResult:
        """End the block if nothing in it can move any more."""
        progress = self.step.progress
        assert progress is not None
        if progress.done:
            return self.transition()
        if progress.active:
            return self.stay()
        if self.is_loop and self.frame().graph.collect and progress.opened == progress.total:
            self.step.transition.error = None
            return self.transition()
        if progress.errored:
            return self.error(
                self.step.transition.error or Exception(f"Block has {progress.errored} errored step(s)")
            )
        waiting = [key for key in self.frame().graph.by_key if not self.frame().is_done(key)]
        return self.error(
            StepFailure(f"these steps wait for each other: {', '.join(waiting)}", "DependencyCycle")
        )


class BlockExecutionBeginHandler(BlockHandler):
    """state.block.execution.Begin: wait for steps of enclosing blocks, then start what needs nothing else."""

    def process_state(self) -> StateChangeResult:
        frame = self.frame()
        if not self._outer_ready(frame):
            return self.stay()
        if frame.graph.cases:
            self._open_cases(frame)
        elif self.is_repeat:
            Repeat(self.step, self.context).begin()
        elif self.is_loop:
            self.step.progress = BlockProgress(len(frame.elements()))
            if self.open_elements():
                self.context.wake(self.step.id)
        else:
            self.step.progress = BlockProgress(len(frame.graph.by_key))
            for statement in frame.graph.by_key.values():
                if not statement.needs:
                    self.create(statement, frame)
        return self.transition()

    def _outer_ready(self, frame: Frame) -> bool:
        inner = self.step.object_type == ObjectType.BLOCK  # its foreach or when has waited already
        if inner or not frame.graph.inline or not frame.graph.outer:
            return True
        enclosing = frame.enclosing()
        standings = {name: enclosing.standing(name) for name in sorted(frame.graph.outer)}
        for name, standing in standings.items():
            if standing is Standing.FAILED:
                raise StepFailure(
                    f"it refers to step '{name}', which failed or was skipped", "DependencyFailed"
                )
        return Standing.WAITING not in standings.values()

    def _open_cases(self, frame: Frame) -> None:
        context = frame.evaluation(self.step.id)
        cases = frame.graph.cases
        chosen = [
            position
            for position, case in enumerate(cases)
            if case.condition is not None and boolean(case.condition(context), "a when condition")
        ]
        if not chosen:
            chosen = [position for position, case in enumerate(cases) if case.condition is None]
        if not chosen:
            raise StepFailure("no case of the when applies, and it has no default", "NoCase")
        self.step.progress = BlockProgress(len(chosen), len(chosen), len(chosen))
        for position in chosen:
            self.context.create_step(
                paths.child(self.step.id, f"?{position}"),
                ObjectType.BLOCK,
                owner_id=self.step.id,
                owner_type=self.step.object_type,
            )


class BlockExecutionContinueHandler(BlockHandler):
    """state.block.execution.Continue: act on what completed in the iteration before."""

    def process_state(self) -> StateChangeResult:
        reports = self.context.settle_children(self.step)
        progress = self.step.progress
        if self.is_repeat:
            if progress is not None and progress.done and Repeat(self.step, self.context).go_on():
                return self.stay()
        elif self.is_loop:
            left = progress is not None and (progress.opened < progress.total or progress.parked)
            if left and self.open_elements():
                self.context.wake(self.step.id)
        elif reports and self.step.object_type != ObjectType.AND_WHEN:
            frame = self.frame()
            for report in reports:
                if report.is_complete:
                    self._follow(frame, paths.key(report.id))
                else:
                    for key in frame.doomed_by(paths.key(report.id)):
                        self._wake_bodies(frame, key)
        return self.conclude()

    def _follow(self, frame: Frame, key: str) -> None:
        for statement in frame.complete(key):
            self.create(statement, frame)
        self._wake_bodies(frame, key)

    def _wake_bodies(self, frame: Frame, key: str) -> None:
        for step_key, segment in frame.graph.body_needs.get(key, ()):
            holder = self.context.known_step(paths.child(self.step.id, step_key))
            body_id: StepId = paths.child(self.step.id, f"{step_key}/{segment}")
            body = self.context.known_step(body_id) if holder is not None else None
            if body is not None and body.state == StepState.BLOCK_EXECUTION_BEGIN:
                self.context.wake(body_id)


class BlockExecutionEndHandler(PassThroughHandler):
    """state.block.execution.End"""
