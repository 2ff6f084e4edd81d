"""What our own verbs answer, as JSON after SUCCESS. Times are milliseconds since the epoch."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from afl.fleet.statuses import Status

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
