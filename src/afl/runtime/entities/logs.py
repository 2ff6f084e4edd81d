"""Entries of a run's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class NoteType:
    """Kinds of log entries."""

    ERROR = "error"
    INFO = "info"
    WARNING = "warning"


class NoteOriginator:
    """Who wrote a log entry."""

    WORKFLOW = "workflow"
    AGENT = "agent"


class NoteImportance:
    """How much a log entry matters."""

    HIGH = 1
    NORMAL = 5
    LOW = 10


@dataclass
class LogDefinition:
    """One entry of a run's log; `attempt` is the number of the attempt that it is about, or 0."""

    uuid: str
    order: int
    runner_id: str
    step_id: str | None = None
    object_id: str = ""
    object_type: str = ""
    note_originator: str = NoteOriginator.WORKFLOW
    note_type: str = NoteType.INFO
    note_importance: int = NoteImportance.NORMAL
    message: str = ""
    state: str = ""
    line: int = 0
    file: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    time: int = 0
    attempt: int = 0

    @property
    def ends_attempt(self) -> bool:
        """Whether it says how an attempt ended, and is nothing that its handler said."""
        return self.attempt > 0 and self.note_originator == NoteOriginator.WORKFLOW
