"""The claims of remote workers: what they are told and tell, and whether a claim still holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.bounds import Moment, NameOrNothing, Text
from afl.kernel.clock import wall_ms
from afl.kernel.errors import FencedError
from afl.kernel.ids import sortable_id
from afl.operations.reason.subjects import UnknownSubject
from afl.runtime.entities import (
    AttemptDefinition,
    AttemptOutcome,
    LogDefinition,
    NoteOriginator,
    NoteType,
    TaskDefinition,
    TaskState,
)
from afl.runtime.entities.timeouts import TIMEOUT_ERROR
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.task_handlers.log_writer import LogWriter

Level = Annotated[str, Meta(pattern=rf"\A({NoteType.INFO}|{NoteType.WARNING}|{NoteType.ERROR})\Z")]
"""Checked when a request is read: what is refused later has been done in part."""


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A task to work on. `epoch` is to be told with every report; `idempotency_key` is the same on every attempt.

    Without a heartbeat it is the worker's for `lease_ms`. `timeout_ms` is what the workflow gives it, 0: no limit.
    """

    task: str
    epoch: int
    facet: str
    inputs: dict[str, Any]
    attempt: int
    idempotency_key: str
    run: str
    step: str
    lease_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """The tasks that were claimed."""

    tasks: list[ClaimedTask]


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line for the log of a run. `level` is info, warning or error, `progress` from 0 to 1; `time` is now if it is 0.

    Of two lines with the same `id` one is stored: a request can be sent again.
    """

    message: Text = ""
    level: Level = NoteType.INFO
    progress: Annotated[float, Meta(ge=0, le=1)] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    time: Moment = 0
    id: NameOrNothing = ""


@dataclass(frozen=True, slots=True)
class TaskClaim:
    """A task that a worker has, by the epoch of its claim, and what it logs."""

    task: str
    epoch: int
    logs: list[LogLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LostTask:
    """A task that is not the worker's any more, and why: stop working on it."""

    task: str
    epoch: int
    why: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The ids of tasks that are still the worker's, and those that are not."""

    held: list[str]
    lost: list[LostTask]


@dataclass(frozen=True, slots=True)
class Reported:
    """The outcome for a task: completed, failed (`error` says why), or pending, to be tried again in `retry_in_ms`."""

    task: str
    state: str
    error: str = ""
    retry_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """How many tasks went back to others."""

    returned: int


def owner_of(user: str, worker: str) -> str:
    """The owner of a remote worker's claims; no process has such a name, so only its leases say whether it lives."""
    return f"http:{user}:{worker}"


def held_task(
    store: PersistenceAPI, task: str, epoch: int, owner: str, *, ended: str
) -> TaskDefinition | None:
    """The task if the claim holds; None if this very claim has `ended` it so before. FencedError in all other cases."""
    found = store.get_task(task)
    if found is None:
        raise UnknownSubject(f"there is no task {task!r} in this store")
    if (found.owner, found.epoch) == (owner, epoch):
        if found.state == TaskState.RUNNING:
            return found
        if found.state == ended:
            return None
    raise fenced(store, task, epoch)


def own_failure(store: PersistenceAPI, task: TaskDefinition, owner: str) -> AttemptDefinition | None:
    """The last attempt of a task that is to be tried again, if its worker was this one and said that it failed."""
    if task.last_owner != owner:
        return None
    (last,) = store.get_failed_attempts(task.workflow_id, task.uuid)[-1:] or (None,)
    if last is None or (last.worker, last.outcome) != (owner, AttemptOutcome.FAILED):
        return None
    return None if last.error_type == TIMEOUT_ERROR else last


def put_back(store: PersistenceAPI, task: str, epoch: int, owner: str) -> AttemptDefinition | None:
    """The attempt of this very claim, if its worker said that it failed, and the task waits to be tried again."""
    found = store.get_task(task)
    if found is None or (found.state, found.epoch) != (TaskState.PENDING, epoch + 1):
        return None
    return own_failure(store, found, owner)


def fenced(store: PersistenceAPI, task: str, epoch: int) -> FencedError:
    """The refusal of a report that comes too late."""
    return FencedError(
        f"task {task} is not yours under epoch {epoch}, and the report was refused: {why_lost(store, task, epoch)}"
    )


def why_lost(store: PersistenceAPI, task: str, epoch: int) -> str:
    """Why a claim does not hold, in words."""
    found = store.get_task(task)
    if found is None:
        return "it is not in the store any more"
    if found.state == TaskState.RUNNING:
        if found.epoch == epoch:
            return "another worker has it"
        return f"it was taken away, and another worker has it now under epoch {found.epoch}"
    if found.state == TaskState.PENDING:
        return "it was taken away: its lease ended, its time was up, or its run was paused"
    return f"it is {found.state}"


def save_logs(store: PersistenceAPI, task: TaskDefinition, lines: Sequence[LogLine]) -> None:
    """Store what the worker of a task says, as if its handler had said it here."""
    writer = LogWriter(store)
    for number, line in enumerate(lines):
        writer.write(_log(task, line, number))
    writer.flush()


def _log(task: TaskDefinition, line: LogLine, number: int) -> LogDefinition:
    progress = {} if line.progress is None else {"progress": line.progress}
    now = line.time or wall_ms()
    return LogDefinition(
        uuid=f"{task.uuid}-{line.id}" if line.id else sortable_id(),
        order=now * 1000 + number,
        runner_id=task.workflow_id,
        step_id=task.step_id,
        object_id=task.uuid,
        object_type="task",
        note_originator=NoteOriginator.AGENT,
        note_type=line.level,
        message=line.message or (f"{line.progress:.0%}" if line.progress is not None else ""),
        details={**line.details, **progress},
        time=now,
        attempt=task.deliveries,
    )
