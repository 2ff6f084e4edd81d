"""Attempts: each delivery of a task to a worker, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from afl.kernel.ids import sortable_id
from afl.runtime.entities.logs import LogDefinition, NoteType

_SUCCESSFUL = ("running", "completed", "ignored")
KEPT_ATTEMPTS = 50  # of a task, besides the first: the newest


class AttemptOutcome:
    """How an attempt ended."""

    RUNNING = "running"  # not yet
    COMPLETED = "completed"
    IGNORED = "ignored"  # its result came when nobody waited for it any more
    FAILED = "failed"  # the handler raised, its result was refused, or its time was up
    CANCELED = "canceled"  # with its run
    DIED = "died"  # the worker's process did
    EXPIRED = "expired"  # the worker did not renew its lease
    RELEASED = "released"  # a worker that stopped gave it back


@dataclass(frozen=True, slots=True)
class AttemptDefinition:
    """One delivery of a task.

    One that goes on, or ended with a result, is the task's own row. One that ended without a result is stored once, in
    the transaction that ends it, and the task goes on without it.

    `number` counts from 1 for each task. `worker` is the owner of the claim, or who else did the work
    ("human:finance"); `host` and `pid` are its process, where they are known. Times are milliseconds of the wall
    clock, 0 if unknown; `queued` is since when it could be claimed. `location` is the line of the user's code that
    failed, `traceback` Python's own text, without local variables and secrets. `retry_ms` is the delay after which it
    is tried again; None if it is not.
    """

    workflow_id: str
    task_id: str
    number: int
    step_id: str
    worker: str
    outcome: str
    host: str = ""
    pid: int = 0
    queued: int = 0
    started: int = 0
    ended: int = 0
    error_type: str = ""
    error: str = ""
    location: str = ""
    traceback: str = ""
    retry_ms: int | None = None

    @property
    def is_unsuccessful(self) -> bool:
        """Whether it ended without a result."""
        return self.outcome not in _SUCCESSFUL


def in_order(attempts: Iterable[AttemptDefinition]) -> list[AttemptDefinition]:
    """Stored attempts, task by task, each queued since the one before it ended and its delay was over."""
    ordered: list[AttemptDefinition] = []
    for each in sorted(attempts, key=lambda attempt: (attempt.task_id, attempt.number)):
        before = ordered[-1] if ordered and ordered[-1].task_id == each.task_id else None
        ordered.append(
            each if before is None else replace(each, queued=before.ended + (before.retry_ms or 0))
        )
    return ordered


_LOST = {
    AttemptOutcome.DIED: "was lost: its worker died",
    AttemptOutcome.EXPIRED: "was lost: its lease expired without being renewed",
    AttemptOutcome.CANCELED: "was canceled",
    AttemptOutcome.RELEASED: "was given back by a worker that stopped",
}
_LINE_CHARACTERS = 500


def failure_logs(attempts: Iterable[AttemptDefinition]) -> list[LogDefinition]:
    """What the logs of their runs say of the attempts that ended without a result."""
    return [_log(each) for each in attempts if each.is_unsuccessful and each.workflow_id]


def _log(attempt: AttemptDefinition) -> LogDefinition:
    file, _, rest = attempt.location.rpartition(":")
    line = rest.partition(" ")[0]
    return LogDefinition(
        uuid=sortable_id(),
        order=attempt.ended * 1000,
        runner_id=attempt.workflow_id,
        step_id=attempt.step_id,
        object_id=attempt.task_id,
        object_type="task",
        note_type=NoteType.INFO if attempt.outcome == AttemptOutcome.RELEASED else NoteType.ERROR,
        message=f"attempt {attempt.number} {_ending(attempt)}",
        file=file,
        line=int(line) if line.isdigit() else 0,
        time=attempt.ended,
        attempt=attempt.number,
    )


def _ending(attempt: AttemptDefinition) -> str:
    if attempt.outcome != AttemptOutcome.FAILED:
        return _LOST[attempt.outcome]
    cause = attempt.error.strip().partition("\n")[0][:_LINE_CHARACTERS]
    place = f" ({attempt.location})" if attempt.location else ""
    again = "" if attempt.retry_ms is None else f"; next attempt in {attempt.retry_ms:,} ms"
    return f"failed: {attempt.error_type}: {cause}{place}{again}"
