"""The words for where a run or a task stands, as they go over the wire and into the tables."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The first six are the reference's; old peers never see the last two."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"  # a run that `overlap: queue` holds until the one before it has ended
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CRASHED = "CRASHED"
    SKIPPED = "SKIPPED"  # tasks alone: something it depends on failed
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        """Whether nothing follows, unless the run is queued again; CRASHED may be corrected once."""
        return self in FINAL

    @property
    def for_old_peers(self) -> Status:
        """The nearest of the six words that an old peer can read."""
        return Status.FAILED if self in (Status.SKIPPED, Status.CANCELLED) else self


FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CRASHED, Status.SKIPPED, Status.CANCELLED})
OLD = frozenset(Status) - {Status.SKIPPED, Status.CANCELLED}
