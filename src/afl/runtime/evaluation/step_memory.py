"""The steps of a run in memory: found there or in the store, and forgotten when they are of no use any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.kernel.errors import CorruptRow
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.program import paths
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId

if TYPE_CHECKING:
    from afl.runtime.evaluation.frame import Frame


_REMOVED_AT_ONCE = 64


class StepMemory:
    """What an ExecutionContext remembers. It can be dropped at any commit: the store has it all.

    The context inherits it rather than asks it: this is what the evaluator does most.
    """

    persistence: PersistenceAPI
    changes: IterationChanges
    inbox: dict[StepId, list[StepDefinition]]
    _steps: dict[StepId, StepDefinition]
    emptied: int  # how often everything was forgotten
    _fresh: set[StepId]  # created in here: the store has no children of theirs that are not in memory
    _frames: dict[StepId, Frame]
    _removed: set[StepId]  # and still in memory

    def step(self, step_id: StepId) -> StepDefinition | None:
        """The step, from memory or the store."""
        found = self._steps.get(step_id)
        if found is None:
            found = self.persistence.get_step(step_id)
            if found is not None:
                self.adopt(found)
        return found

    def cached(self, step_id: StepId) -> StepDefinition | None:
        """The step if it is in memory."""
        return self._steps.get(step_id)

    def known_step(self, step_id: StepId) -> StepDefinition | None:
        """As `step`, but without asking the store for children of what was created in here."""
        found = self._steps.get(step_id)
        if found is not None or paths.parent(step_id) in self._fresh:
            return found
        return self.step(step_id)

    def is_fresh(self, step_id: StepId) -> bool:
        """Whether a step was created in here: the store has nothing that it did before."""
        return step_id in self._fresh

    def require_step(self, step_id: StepId) -> StepDefinition:
        """The step, which must exist."""
        found = self.step(step_id)
        if found is None:
            raise CorruptRow(f"step {step_id} is missing from the store")
        return found

    def preload(self, step_ids: list[StepId]) -> list[StepId]:
        """Bring steps into memory in one round trip; which were not there before."""
        missing = [step_id for step_id in step_ids if step_id not in self._steps]
        if not missing:
            return []
        loaded = self.persistence.get_steps(missing)
        for step in loaded:
            self.adopt(step)
        return [step.id for step in loaded]

    def forget_waiting(self, step_ids: list[StepId]) -> None:
        """Drop steps at EventTransmit: they are their task's holder's to write, so these may be out of date."""
        own = self.changes.changed_ids
        for step_id in step_ids:
            known = self._steps.get(step_id)
            if known is not None and known.state == StepState.EVENT_TRANSMIT and step_id not in own:
                del self._steps[step_id]

    def adopt(self, step: StepDefinition) -> StepDefinition:
        """Take a step read from the store into memory, in place of what was there. CorruptRow if it is unreadable."""
        if step.unreadable:
            raise CorruptRow(step.unreadable)
        self._steps[step.id] = step
        return step

    def forget_closed(self, steps: list[StepDefinition]) -> None:
        """Drop stored steps that nobody can refer to any more: finished ones below finished ones.

        Yields stay while there is room, since their owner wants to read them once more.
        """
        for step in steps:
            if step.is_terminal and step.object_type != ObjectType.YIELD_ASSIGNMENT:
                self._close_frame(step.id)
                holder = self._steps.get(paths.parent(step.id))
                if holder is None or holder.is_terminal:
                    self._drop(step.id)

    def remove(self, step_id: StepId) -> None:
        """With the next commit a step goes from the store with all that is below it; it must be over."""
        self.changes.removed.append(step_id)
        self._removed.add(step_id)

    def forget_removed(self) -> None:
        """Drop what was removed from the store. Many at once, as everything in memory is looked at."""
        if len(self._removed) >= _REMOVED_AT_ONCE:
            for step_id in [each for each in {*self._steps, *self._frames} if self._is_removed(each)]:
                self._drop(step_id)
            self._removed.clear()

    def _is_removed(self, step_id: str) -> bool:
        while "/#" in step_id:
            if step_id in self._removed:
                return True
            step_id = paths.parent(step_id)
        return False

    def forget(self, step_ids: list[StepId]) -> None:
        """Drop steps that were only read."""
        for step_id in step_ids:
            self._drop(step_id)

    def forget_all(self) -> None:
        """Drop every cache; what is still needed is read again from the store.

        But for the frames of blocks whose children have reported: they know which of the statements have steps.
        """
        self.emptied += 1
        self._steps.clear()
        self._fresh.clear()
        self._removed.clear()
        for block_id in self._frames.keys() - self.inbox.keys():
            self._close_frame(block_id)

    clear_caches = forget_all

    @property
    def cached_steps(self) -> int:
        """How many steps are in memory."""
        return len(self._steps)

    def _drop(self, step_id: StepId) -> None:
        self._steps.pop(step_id, None)
        self._fresh.discard(step_id)
        self._fresh.discard(paths.parent(step_id))  # not all of its children are in memory any more
        self._close_frame(step_id)

    def _close_frame(self, block_id: StepId) -> None:
        frame = self._frames.pop(block_id, None)
        if frame is not None:
            frame.close()
