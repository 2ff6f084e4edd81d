"""What a store does with servers, with the named locks they take, and with the logs of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afl.runtime.entities import LockDefinition, LockMetaData, LogDefinition, ServerDefinition


class ServerStore(Protocol):
    """Servers."""

    def get_server(self, uuid: str) -> ServerDefinition | None:
        """The server, or None."""

    def save_server(self, server: ServerDefinition) -> None:
        """Insert or replace a server."""

    def update_server_ping(self, uuid: str, ping_time: int) -> bool:
        """Set a server's ping time; False if there is none."""

    def get_all_servers(self) -> list[ServerDefinition]:
        """Every server, oldest start first."""

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        """The servers in a state, oldest start first."""


class LockStore(Protocol):
    """Named locks. A call that names no owner acts as an operator: it may release or extend any lock."""

    def acquire_lock(
        self, key: str, duration_ms: int, meta: LockMetaData | None = None, *, owner: str = ""
    ) -> bool:
        """Take a free or expired lock; an owner that has it already extends it. False if another has it."""

    def release_lock(self, key: str, *, owner: str = "") -> bool:
        """Give a lock back; False if it was not held (by that owner)."""

    def check_lock(self, key: str) -> LockDefinition | None:
        """The lock if somebody holds it now."""

    def extend_lock(self, key: str, duration_ms: int, *, owner: str = "") -> bool:
        """Set the expiry to now + duration; False if the lock is not held (by that owner)."""


class LogStore(Protocol):
    """Run logs."""

    def save_log(self, log: LogDefinition) -> None:
        """Append a log entry."""

    def save_logs(self, logs: Sequence[LogDefinition]) -> None:
        """Append log entries in one round trip."""

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        """The entries of a runner (or run), by order, then by time."""

    def get_logs_after(
        self, runner_id: str, position: int, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        """Entries of a runner (or run) stored behind a position, with their positions, for those who follow."""

    def get_logs_before(
        self, runner_id: str, position: int = 0, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        """Entries stored before a position, newest first; before 0 are all of them."""
