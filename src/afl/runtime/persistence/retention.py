"""What a store removes once it is old."""

from __future__ import annotations

from typing import Protocol

UNTOLD_MS = 86_400_000  # for so long an ended run is kept whose work elsewhere has not been called off yet


class RetentionStore(Protocol):
    """What ended long ago, removed a few at a time. Times are of the wall clock, in milliseconds."""

    def delete_runs(self, ended_before: int, limit: int) -> int:
        """Remove up to so many runs that ended before a time, with all that belongs to them."""

    def delete_tasks(self, ended_before: int, limit: int) -> int:
        """Remove up to so many tasks of no step that ended before a time: of no run, and so going with none."""

    def delete_logs(self, written_before: int, limit: int) -> int:
        """Remove up to so many lines of the log of no run that are older than a time."""

    def count_old_tasks(self, ended_before: int) -> int:
        """How many tasks `delete_tasks` would remove, called again and again."""
