"""A step: one node of a run, with its state, values and place in the tree."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from afl.runtime.states import StepState, get_next_state, select_transitions
from afl.runtime.types import (
    BlockId,
    FacetAttributes,
    ObjectType,
    StatementId,
    StepId,
    VersionInfo,
    WorkflowId,
    step_id,
)


@dataclass(slots=True)
class StepTransition:
    """Where a step stands within an iteration; only the state itself is stored."""

    original_state: str
    current_state: str
    changed: bool = False
    request_transition: bool = False
    push_me: bool = False
    error: Exception | None = None

    @classmethod
    def initial(cls) -> StepTransition:
        """A fresh step: at Created, and asking to go on."""
        return cls(StepState.CREATED, StepState.CREATED, request_transition=True)

    def request_state_change(self, request: bool = True) -> None:
        """Ask for the next state (or withdraw the request)."""
        self.request_transition = request
        if request:
            self.changed = True

    def change_and_transition(self) -> None:
        """Mark as changed and ask for the next state."""
        self.changed = True
        self.request_transition = True

    def set_push_me(self, push: bool) -> None:
        """Ask to be looked at again in the next iteration."""
        self.push_me = push

    def set_error(self, error: Exception | None) -> None:
        """Record the error that ended the step."""
        self.error = error
        self.changed = True

    @property
    def is_requesting_state_change(self) -> bool:
        """Whether the next state was asked for."""
        return self.request_transition

    @property
    def is_requesting_push(self) -> bool:
        """Whether another look in the next iteration was asked for."""
        return self.push_me

    @property
    def has_error(self) -> bool:
        """Whether an error is recorded."""
        return self.error is not None

    def reset_for_iteration(self) -> None:
        """Forget what concerns one iteration only."""
        self.push_me = False

    def commit(self) -> None:
        """Take the current state as the stored one."""
        self.original_state = self.current_state
        self.changed = False
        self.request_transition = False


CURRENT_VERSION = VersionInfo()
_TERMINAL = (StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR)


class StepLine(NamedTuple):
    """A step without its values."""

    id: StepId
    object_type: str
    state: str
    facet_name: str
    started: int
    ended: int


KEPT_ITERATIONS = 10
"""So many ended iterations of a repeat stay in the store; those before them are removed."""


@dataclass(slots=True)
class BlockProgress:
    """How far a block is: `total` children in the program, `opened` so far, `active` of those unfinished.

    `error_at` is the place in program order of the failed child whose error the block keeps: the first one. Of a
    repeat, `opened` counts iterations, `total` as well, and `idle` those in a row without outside work.
    """

    total: int
    opened: int = 0
    active: int = 0
    complete: int = 0
    errored: int = 0
    error_at: int = -1
    idle: int = 0

    @property
    def parked(self) -> int:
        """How many were opened, failed, and are to be tried again when the limit of the foreach has room for them."""
        return self.opened - self.active - self.complete - self.errored

    @property
    def done(self) -> bool:
        """Whether every child completed."""
        return self.complete == self.total

    @property
    def kept(self) -> range:
        """The iterations of a repeat that are in the store."""
        return range(max(0, self.opened - KEPT_ITERATIONS - 1), self.opened)


@dataclass(slots=True)
class StepDefinition:
    """One step of a run.

    `unreadable` says why the stored step could not be read in full; its values are left out then.
    """

    id: StepId
    object_type: str
    workflow_id: WorkflowId
    statement_id: StatementId | None = None
    container_type: str | None = None
    container_id: StepId | None = None
    block_id: BlockId | None = None
    root_id: StepId | None = None
    state: str = StepState.CREATED
    transition: StepTransition = field(default_factory=StepTransition.initial)
    facet_name: str = ""
    attributes: FacetAttributes = field(default_factory=FacetAttributes)
    version: VersionInfo = CURRENT_VERSION
    timestamp: int | None = None
    progress: BlockProgress | None = None
    started: int = 0
    ended: int = 0
    unreadable: str = ""

    @classmethod
    def create(
        cls,
        workflow_id: WorkflowId,
        object_type: str,
        facet_name: str = "",
        statement_id: StatementId | None = None,
        container_id: StepId | None = None,
        container_type: str | None = None,
        block_id: BlockId | None = None,
        root_id: StepId | None = None,
    ) -> StepDefinition:
        """A fresh step with a random id."""
        return cls(
            id=step_id(),
            object_type=object_type,
            workflow_id=workflow_id,
            statement_id=statement_id,
            container_type=container_type,
            container_id=container_id,
            block_id=block_id,
            root_id=root_id,
            facet_name=facet_name,
        )

    @property
    def current_state(self) -> str:
        """The state the step is in."""
        return self.transition.current_state

    @property
    def is_complete(self) -> bool:
        """Whether the step succeeded."""
        return self.state == StepState.STATEMENT_COMPLETE

    @property
    def is_error(self) -> bool:
        """Whether the step failed."""
        return self.state == StepState.STATEMENT_ERROR

    @property
    def is_terminal(self) -> bool:
        """Whether the step is over."""
        return self.state in _TERMINAL

    @property
    def is_block(self) -> bool:
        """Whether the step holds other steps."""
        return ObjectType.is_block(self.object_type)

    @property
    def is_statement(self) -> bool:
        """Whether the step stands for a statement."""
        return ObjectType.is_statement(self.object_type)

    @property
    def is_requesting_state_change(self) -> bool:
        """Whether the step asks for its next state."""
        return self.transition.request_transition

    def change_state(self, state: str) -> None:
        """Go to a state."""
        self.state = state
        self.transition.current_state = state
        self.transition.changed = True

    def request_state_change(self, request: bool = True) -> None:
        """Ask for the next state (or withdraw the request)."""
        self.transition.request_state_change(request)

    def mark_error(self, error: Exception | None = None) -> None:
        """End the step in Error."""
        self.change_state(StepState.STATEMENT_ERROR)
        self.transition.request_transition = False
        self.transition.set_error(error)

    def mark_completed(self) -> None:
        """End the step in Complete."""
        self.change_state(StepState.STATEMENT_COMPLETE)
        self.transition.request_transition = False

    def select_next_state(self) -> str | None:
        """The state after the current one in this step's table."""
        return get_next_state(self.state, select_transitions(self.object_type))

    def clone(self) -> StepDefinition:
        """An independent copy."""
        return copy.deepcopy(self)

    def get_attribute(self, name: str) -> Any:
        """The return of that name, else the parameter, else None."""
        found = self.attributes.returns.get(name) or self.attributes.params.get(name)
        return found.value if found is not None else None

    def set_attribute(self, name: str, value: Any, is_return: bool = False) -> None:
        """Set a parameter, or a return."""
        if is_return:
            self.attributes.set_return(name, value)
        else:
            self.attributes.set_param(name, value)
