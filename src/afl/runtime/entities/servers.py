"""Servers that work on tasks, and the named locks they take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class ServerState:
    """States of a server."""

    STARTUP = "startup"
    RUNNING = "running"
    SHUTDOWN = "shutdown"
    ERROR = "error"


@dataclass
class HandledCount:
    handler: str
    handled: int = 0
    not_handled: int = 0


@dataclass
class ServerDefinition:
    """A service that works on tasks. `manager` is the process it runs in, by the name under which that holds tasks.

    It claims from `task_list`, at most `capacity` tasks at a time (0: unknown); with `any_event` whatever their name.
    """

    uuid: str
    server_group: str
    service_name: str
    server_name: str
    server_ips: list[str] = field(default_factory=list)
    start_time: int = 0
    ping_time: int = 0
    topics: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    handled: list[HandledCount] = field(default_factory=list)
    state: str = ServerState.STARTUP
    manager: str = ""
    error: dict[str, Any] | None = None
    task_list: str = "default"
    capacity: int = 0
    any_event: bool = False


@dataclass
class LockMetaData:
    topic: str | None = None
    handler: str | None = None
    step_name: str | None = None
    step_id: str | None = None


@dataclass
class LockDefinition:
    """A named lock, with times of the store's clock.

    Its owner may release or extend it, and so may a caller that names no owner.
    """

    key: str
    acquired_at: int = 0
    expires_at: int = 0
    meta: LockMetaData | None = None
    owner: str = ""
