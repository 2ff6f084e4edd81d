"""What a store does with signals: it keeps them in the order of delivery until a task of the run receives them."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from afl.runtime.entities import SignalDefinition, TaskDefinition
from afl.runtime.types import WorkflowId

MOST_UNRECEIVED = 1000
"""How many signals of a name a run keeps that no task has received."""


class SignalStored(StrEnum):
    """What became of a signal that was to be stored."""

    STORED = "stored"
    DUPLICATE = "duplicate"  # the run has had one of this id
    OVER = "over"  # the run has ended, or there is none
    FULL = "full"  # MOST_UNRECEIVED of the name wait


class SignalStore(Protocol):
    """Signals. `finish` gives one to a task, with an Outcome that names it. They are deleted with their run."""

    def add_signal(self, signal: SignalDefinition) -> SignalStored:
        """Store a signal behind all others of its run; anything but STORED: nothing is stored."""

    def get_signal(self, workflow_id: WorkflowId, id: str) -> SignalDefinition | None:
        """The signal of a run with this id, received or not."""

    def get_signals(
        self, workflow_id: WorkflowId, name: str = "", *, after: int = 0, limit: int = 100
    ) -> list[SignalDefinition]:
        """Signals of a run (of one name) that no task has received, oldest first, from the place `after` on."""

    def get_signal_tasks(self, workflow_id: WorkflowId, name: str, limit: int = 1000) -> list[TaskDefinition]:
        """Tasks of a run that wait for a signal of this name, oldest first."""

    def get_receivable(
        self, workflow_id: WorkflowId | None = None, limit: int = 100
    ) -> list[tuple[WorkflowId, str]]:
        """Runs (or this one) and names with both an unreceived signal and a task that waits for it."""
