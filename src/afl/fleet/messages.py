"""What peers of a fleet send each other: statuses, the records of agents, and the answers to our own verbs.

Records form one ordered stream per agent, numbered from 1 without a gap; a record is JSON with a `kind`, and the
principal stores each number of a stream once. Answers are JSON after SUCCESS. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import msgspec

from afl.kernel.bounds import Integer, Moment, Name, Position, Text


class Status(StrEnum):
    """The first six are the reference's; old peers never receive the last two."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"  # a run that `overlap: queue` holds until the one before it has ended
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CRASHED = "CRASHED"
    SKIPPED = "SKIPPED"  # tasks only: a dependency failed
    CANCELED = "CANCELED"

    @property
    def is_final(self) -> bool:
        """Whether it is final, unless the run is queued again; CRASHED may be corrected once."""
        return self in FINAL

    @property
    def for_old_peers(self) -> Status:
        """The nearest of the six statuses that an old peer knows."""
        return Status.FAILED if self in (Status.SKIPPED, Status.CANCELED) else self


FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CRASHED, Status.SKIPPED, Status.CANCELED})
OLD = frozenset(Status) - {Status.SKIPPED, Status.CANCELED}


class Level(StrEnum):
    """The level of a line of output, as the reference names it."""

    DEBUG = "DEBUG"
    INFO = "INFO"  # standard output
    WARNING = "WARNING"
    ERROR = "ERROR"  # standard error


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="run", omit_defaults=True):
    """A run has a new status; `at` is the agent's wall clock in milliseconds."""

    seq: Position
    run_id: Name
    epoch: Position
    status: Status
    at: Moment
    error: str = ""  # truncated when stored


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="task", omit_defaults=True):
    """A task of a run has a new status. A retried task keeps its id and gets another instance id."""

    seq: Position
    run_id: Name
    epoch: Position
    task_id: Name
    task_instance_id: Name
    status: Status
    at: Moment
    attempt: Position = 1
    exit_code: Integer | None = None
    error: str = ""  # truncated when stored


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="log", omit_defaults=True):
    """Lines that one stream of a task wrote at about the same time.

    `lines` is a JSON array of `count` strings. It stays raw JSON from the spool to the table, which makes a hundred
    thousand lines cheap: `msgspec.Raw(msgspec.json.encode(list_of_lines))`.
    """

    seq: Position
    run_id: Name
    epoch: Position
    workflow_id: Name
    workflow_name: Text
    task_name: Text
    task_instance_id: Name
    at: Moment
    level: Level
    count: Position
    lines: msgspec.Raw


Record: TypeAlias = RunRecord | TaskRecord | LogRecord


T = TypeVar("T")


class Started(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str


class FetchedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that an agent holds: every report of it carries this epoch. `workflow` is its JSON."""

    run_id: str
    epoch: int
    attempt: int
    params: dict[str, Any]
    workflow: msgspec.Raw


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """Commands to an agent: cancel these runs; drop the lost ones, which another agent holds or which have ended."""

    cancel: list[str] = []
    lost: list[str] = []


class Acked(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to this number is stored; the next record to send is the one after it."""

    acked: int


class RecentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A row of GETRECENTSTATUSES, with the fields of the reference."""

    workflow_id: str
    workflow_instance_id: str
    status: str
    timestamp_ms: int


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A row of GETREGISTEREDAGENTS: the last heartbeat in microseconds, and the number of running workflows."""

    agent_id: str
    last_ping_timestamp: int
    running_tasks: int


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list. `instance_id` is its id among old peers; the same as `run_id` for our agents.

    `waits` says why no agent takes a queued run: an earlier one is open, or no agent that can run it is connected.
    """

    run_id: str
    workflow_id: str
    workflow_name: str
    instance_id: str
    status: Status
    params: dict[str, Any]
    trigger: str
    agent_id: str
    attempt: int
    epoch: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    cancel_reason: str | None
    error: str
    version: int
    waits: str = ""


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """The last attempt of a task of a run."""

    task_id: str
    task_instance_id: str
    status: Status
    attempt: int
    exit_code: int | None
    started_at: int | None
    ended_at: int | None
    error: str


class RunDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A run, its tasks, and the workflow as of the creation of the run."""

    run: RunView
    tasks: list[TaskView]
    workflow: msgspec.Raw


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    workflow_id: str
    workflow_name: str
    workflow_instance_id: str
    task_name: str
    task_instance_id: str
    timestamp_ms: int
    level: str
    payload: str


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, and the position for the next request, after lines that did not match; `more`: the limit cut it."""

    lines: list[LogLine]
    position: int
    more: bool


class FileProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem in a workflow file; line 0 is the file as a whole."""

    path: str
    line: int
    key: str
    error: str


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent and when it was last seen; `alive` by the heartbeat timeout."""

    agent_id: str
    incarnation: str
    slots: int
    running: int
    last_seen: int
    alive: bool


def encode_answer(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def decode_answer(payload: str | bytes, kind: type[T]) -> T:
    return msgspec.json.decode(payload, type=kind)
