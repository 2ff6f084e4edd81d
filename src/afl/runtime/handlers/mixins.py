"""Mixins with an alias run as sub-steps of their owner, before its event phase."""

from __future__ import annotations

from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import PassThroughHandler, StateHandler
from afl.runtime.handlers.children import AwaitChildrenHandler
from afl.runtime.program import paths
from afl.runtime.types import ObjectType


class MixinBlocksBeginHandler(StateHandler):
    """state.mixin.blocks.Begin: start one sub-step per aliased mixin of the called signature."""

    def process_state(self) -> StateChangeResult:
        called = self.context.declaration(self.step)
        aliased = [mixin for mixin in called.mixins if mixin.alias] if called is not None else []
        if aliased:
            self.context.begin_children(self.step, len(aliased))
        for mixin in aliased:
            step_id = paths.child(self.step.id, f"@{mixin.alias}")
            statement = self.context.program.place(
                paths.relative(step_id, self.context.workflow_id)
            ).statement
            self.context.create_step(
                step_id, ObjectType.FACET, statement=statement, owner_id=self.step.id, facet_name=mixin.target
            )
        return self.transition()


class MixinBlocksContinueHandler(AwaitChildrenHandler):
    """state.mixin.blocks.Continue: wait for them; one failure fails the owner."""


class MixinBlocksEndHandler(PassThroughHandler):
    """state.mixin.blocks.End"""


class MixinCaptureBeginHandler(StateHandler):
    """state.mixin.capture.Begin: what a mixin has becomes readable as `$.alias.name`."""

    def process_state(self) -> StateChangeResult:
        if self.step.progress is not None:
            called = self.context.declaration(self.step)
            for mixin in called.mixins if called is not None else ():
                if mixin.alias:
                    done = self.context.require_step(paths.child(self.step.id, f"@{mixin.alias}"))
                    both = {**done.attributes.params, **done.attributes.returns}
                    self.step.set_attribute(mixin.alias, {name: value.value for name, value in both.items()})
            self.step.progress = None
        return self.transition()


class MixinCaptureEndHandler(PassThroughHandler):
    """state.mixin.capture.End"""
