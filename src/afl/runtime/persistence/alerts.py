"""What people are alerted to, questions to them and failed runs, and what each destination has been sent already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A task that waits for an answer of someone in a group."""

    task_id: str
    group: str


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that failed, and when (wall clock, ms): one that is retried may fail again."""

    workflow_id: str
    ended: int


class AlertStore(Protocol):
    """What there is to be sent, and what was sent.

    A subject is a text that names one question or failure; the empty one says that the destination is known.
    """

    def get_questions(self, limit: int) -> list[OpenQuestion]:
        """The questions that can be answered now, oldest first."""

    def get_failures(self, since: int, limit: int) -> list[FailedRun]:
        """The runs that failed at a time (wall clock, ms) or later, the oldest failure first."""

    def get_alerted(self, destination: str, subjects: Sequence[str]) -> set[str]:
        """Those of the subjects that the destination has been sent."""

    def save_alerted(self, destination: str, subjects: Sequence[str]) -> None:
        """The destination has been sent these; known ones are nothing to do."""

    def forget_alerted(self, before: int, limit: int) -> int:
        """Remove up to so many records of what was sent before a time; how many there were. Empty subjects stay."""
