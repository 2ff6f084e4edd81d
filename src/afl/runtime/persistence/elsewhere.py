"""What a store does with work that goes on elsewhere: at an agent, the fleet, a service or a person."""

from __future__ import annotations

from typing import Any, Protocol

from afl.runtime.entities import TaskDefinition


class ElsewhereStore(Protocol):
    """Tasks with `via`: stored with the hold "elsewhere" (or waiting for a slot of their key first), claimed by nobody.

    The time of such a task (`timeout_ms`, `patience_ms`) begins at once. It keeps that hold while its run is paused,
    and counts as active among the tasks of its key. When somebody but the other side ends it (cancel, a timeout, an
    operator), the hold stays as the mark that the other side has not been told, but for people, who need not be told.
    An Outcome `elsewhere` is the other side's own word: it has an effect only if the task is still pending there,
    under the same epoch and `via`.
    """

    def hand_over(
        self, task: TaskDefinition, via: str, bridge: dict[str, Any] | None = None, *, patience_ms: int = 0
    ) -> bool:
        """Let a claimed task be done elsewhere: pending there, with epoch + 1. False if it is not held any more."""

    def get_unanswered(self, limit: int = 100) -> list[TaskDefinition]:
        """Tasks elsewhere whose patience is over: somebody else is to be asked. Oldest first."""

    def ask_next(self, task: TaskDefinition, via: str) -> bool:
        """Move a task to `via`, and store its `bridge` and `patience_ms` as they are now; the epoch stays.

        False if it is no longer where the caller thinks.
        """

    def ended_elsewhere(self, kind: str, limit: int = 100) -> list[TaskDefinition]:
        """Tasks that ended without the other side of this kind ("agent") knowing it yet, oldest first."""

    def told(self, task: TaskDefinition) -> bool:
        """The other side knows that the task has ended; False if it knew already."""
