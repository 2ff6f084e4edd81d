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


class Level(StrEnum):
    """How a line of output is marked; the reference's words."""

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
    error: str = ""  # cut where it is stored


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
    error: str = ""  # cut where it is stored


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="log", omit_defaults=True):
    """Lines that one stream of a task wrote at about the same time.

    `lines` is a JSON array of `count` strings. It stays raw JSON on its way from the spool to the table, which is
    what makes a hundred thousand lines cheap: `msgspec.Raw(msgspec.json.encode(list_of_lines))`.
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
    """A run in hand: whatever the agent reports of it carries this epoch. `workflow` is its wire JSON."""

    run_id: str
    epoch: int
    attempt: int
    params: dict[str, Any]
    workflow: msgspec.Raw


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent shall do: cancel these runs; drop those, which somebody else has now or which have ended."""

    cancel: list[str] = []
    lost: list[str] = []


class Acked(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to this number is stored; the next to send is the one after it."""

    acked: int


class RecentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A row of GETRECENTSTATUSES, in the reference's words."""

    workflow_id: str
    workflow_instance_id: str
    status: str
    timestamp_ms: int


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A row of GETREGISTEREDAGENTS: the last heartbeat in microseconds, and how many workflows run there."""

    agent_id: str
    last_ping_timestamp: int
    running_tasks: int


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list. `instance_id` is the name old peers know it by; the same as `run_id` for our agents.

    `waits` says why no agent takes a queued run: none is connected, or none that can run it.
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
    """A run, its tasks, and the workflow as it was when the run was made."""

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
    """Lines, and the position to ask on from, which is behind lines that did not fit; `more`: the limit cut it."""

    lines: list[LogLine]
    position: int
    more: bool


class FileProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in a workflow file; line 0 is the file as a whole."""

    path: str
    line: int
    key: str
    error: str


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent and when it was last heard; `alive` by the heartbeat timeout."""

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
