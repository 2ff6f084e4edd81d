"""Statements of a block, and how far a block or its owner is.

A statement's key is its segment in the path of a step: the step's name, `>0` `>1` ... for yields, `~0` `~1` ... for
statements without a name. Keys of other steps: `0` `1` ... the blocks of an owner, `#7` a foreach element or an
iteration of a repeat, `?1` a case of a when, `!` the catch block, `@m` the mixin with alias m.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from afl.runtime.program.expression import Evaluate
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StatementId

if TYPE_CHECKING:
    from afl.runtime.program.dependency import DependencyGraph


@dataclass(slots=True)
class MixinUse:
    """A mixin at a call or a signature: which facet, with which arguments, under which alias."""

    target: str
    bindings: tuple[tuple[str, Evaluate], ...]
    alias: str | None = None
    ast: dict[str, Any] = field(default_factory=dict)

    @property
    def constant_name(self) -> str | None:
        """The argument `name`, if it is a text; None for one that is worked out when the step runs."""
        for arg in self.ast.get("args") or []:
            value = arg.get("value", {})
            if arg.get("name") == "name" and value.get("type") == "String":
                return str(value.get("value", ""))
        return None


POLICIES = frozenset(
    {
        "After",
        "Retry",
        "Timeout",
        "Priority",
        "TaskList",
        "Concurrency",
        "Rate",
        "Agent",
        "Fleet",
        "Message",
        "Human",
        "Signal",
        "Run",
    }
)  # the mixins of namespace sys
CHILD_RUN = "sys.Run"


@dataclass(slots=True)
class StatementDefinition:
    """One statement of a block, prepared for evaluation. `needs` are the keys of siblings it refers to.

    `child_run` is the mixin by which the workflow that it calls is a run of its own.
    """

    id: StatementId
    name: str
    object_type: str
    facet_name: str
    dependencies: set[StatementId] = field(default_factory=set)
    args: list[dict[str, Any]] = field(default_factory=list)
    is_yield: bool = False
    key: str = ""
    needs: tuple[str, ...] = ()
    bindings: tuple[tuple[str, Evaluate], ...] = ()
    mixins: tuple[MixinUse, ...] = ()
    bodies: tuple[DependencyGraph, ...] = ()
    catch: DependencyGraph | None = None
    condition: Evaluate | None = None
    level: int = 0
    order: int = 0
    location: dict[str, Any] | None = None
    child_run: MixinUse | None = None


@dataclass
class StepAnalysis:
    """Where the statements of a block stand, computed from scratch; for recovery, not for every iteration."""

    block: StepDefinition
    statements: list[StatementDefinition] = field(default_factory=list)
    missing: list[StatementDefinition] = field(default_factory=list)
    steps: list[StepDefinition] = field(default_factory=list)
    completed: list[StepDefinition] = field(default_factory=list)
    requesting_push: list[StepDefinition] = field(default_factory=list)
    requesting_transition: list[StepDefinition] = field(default_factory=list)
    pending_event: list[StepDefinition] = field(default_factory=list)
    pending_mixin: list[StepDefinition] = field(default_factory=list)
    pending_blocks: list[StepDefinition] = field(default_factory=list)
    done: bool = False

    @classmethod
    def load(
        cls, block: StepDefinition, statements: Iterable[StatementDefinition], steps: Iterable[StepDefinition]
    ) -> StepAnalysis:
        """Sort the steps that exist by where they stand, and find the statements without one."""
        analysis = cls(block, statements=list(statements), steps=list(steps))
        present = {step.statement_id for step in analysis.steps}
        analysis.missing = [s for s in analysis.statements if s.id not in present]
        for step in analysis.steps:
            analysis._sort(step)
        finished = {step.statement_id for step in analysis.completed}
        analysis.done = all(statement.id in finished for statement in analysis.statements)
        return analysis

    def _sort(self, step: StepDefinition) -> None:
        if step.is_complete:
            self.completed.append(step)
        elif step.state == StepState.EVENT_TRANSMIT:
            self.pending_event.append(step)
        elif step.state == StepState.MIXIN_BLOCKS_CONTINUE:
            self.pending_mixin.append(step)
        elif step.state == StepState.STATEMENT_BLOCKS_CONTINUE:
            self.pending_blocks.append(step)
        if step.transition.is_requesting_push:
            self.requesting_push.append(step)
        if step.is_requesting_state_change:
            self.requesting_transition.append(step)

    def can_be_created(self) -> list[StatementDefinition]:
        """Missing statements all of whose dependencies are complete."""
        finished = {step.statement_id for step in self.completed}
        return [statement for statement in self.missing if statement.dependencies <= finished]

    def is_blocked(self) -> bool:
        """Whether only the outside can move the block on."""
        return not self.done and bool(self.pending_event) and not self.has_pending_work()

    def has_pending_work(self) -> bool:
        """Whether the evaluator itself can move the block on."""
        return bool(self.requesting_push or self.requesting_transition or self.can_be_created())

    @property
    def completion_progress(self) -> tuple[int, int]:
        """Completed statements, and all of them."""
        return len(self.completed), len(self.statements)


@dataclass
class BlockAnalysis:
    """Where the blocks (or mixin steps) of an owner stand."""

    step: StepDefinition
    blocks: list[StepDefinition] = field(default_factory=list)
    completed: list[StepDefinition] = field(default_factory=list)
    pending: list[StepDefinition] = field(default_factory=list)
    done: bool = False
    errored: list[StepDefinition] = field(default_factory=list)

    @classmethod
    def load(
        cls, step: StepDefinition, blocks: Iterable[StepDefinition], mixins: bool = False
    ) -> BlockAnalysis:
        """Sort the owner's blocks, or with `mixins` its mixin steps, by whether they are over."""
        analysis = cls(step)
        for block in blocks:
            if (block.object_type == ObjectType.FACET) is not mixins:
                continue
            analysis.blocks.append(block)
            if block.is_complete:
                analysis.completed.append(block)
            elif block.is_error:
                analysis.errored.append(block)
            else:
                analysis.pending.append(block)
        analysis.done = not analysis.pending
        return analysis
