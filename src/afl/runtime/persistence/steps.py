"""What a store does with steps, their events, and the marks that wake evaluators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afl.runtime.persistence.changes import EventDefinition, PublishedValue
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId


class StepStore(Protocol):
    """Steps. Lists come oldest first; steps of one millisecond by id."""

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        """The step, or None."""

    def get_steps(self, step_ids: Sequence[StepId]) -> list[StepDefinition]:
        """Those of the steps that exist, in any order, in one round trip."""

    def get_open_steps(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        """The steps of a run that are neither Complete nor Error."""

    def get_steps_by_block(self, block_id: StepId | BlockId) -> list[StepDefinition]:
        """The statements' steps of a block."""

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        """All steps of a run."""

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        """All steps in a state, of any run."""

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        """The steps whose owner this is: its blocks and the statements in them."""

    def get_blocks_by_step(self, step_id: StepId) -> list[StepDefinition]:
        """The block steps whose owner this is."""

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        """The root step of a run: the one without root and container."""

    def get_lost_steps(self, limit: int = 100) -> list[StepDefinition]:
        """Steps at EventTransmit of running runs without a holder that nobody will continue.

        They have no pending or running task, and no StepContinue mark.
        """

    def step_exists(self, statement_id: StatementId | str, block_id: StepId | BlockId | None) -> bool:
        """Whether a block already has a step for a statement."""

    def save_step(self, step: StepDefinition) -> None:
        """Insert or replace a step, without any fence: for operators and agents of other languages.

        One at EventTransmit that asks for its transition goes on, with its returns, when its run is next evaluated.
        """


class EventStore(Protocol):
    """Events. A saved StepContinue event is a mark: whoever evaluates the run next consumes it."""

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        """The event, or None."""

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        """The events of a run by id (for our own: in creation order), StepContinue marks included."""

    def get_marks(self, workflow_id: WorkflowId, limit: int = 1000) -> list[EventDefinition]:
        """Unconsumed StepContinue events of a run, in any order."""

    def get_marks_of(self, workflow_ids: Sequence[WorkflowId], limit: int = 10_000) -> list[EventDefinition]:
        """Unconsumed StepContinue events of several runs, in any order."""

    def save_event(self, event: EventDefinition) -> None:
        """Insert or replace an event."""


class PublishedStore(Protocol):
    """Values that runs have published. A commit stores them with the steps that published them."""

    def get_published(self, workflow_id: WorkflowId) -> list[PublishedValue]:
        """The latest value of each name of a run, by name."""
