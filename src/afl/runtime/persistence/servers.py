"""What a store does with flows and programs, servers, locks and logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afl.runtime.entities import (
    FlowDefinition,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    ServerDefinition,
    WorkflowDefinition,
)


class FlowStore(Protocol):
    """Flows with their sources, workflows, and compiled programs by hash."""

    def save_program(self, program_hash: str, compiled: str) -> None:
        """Store a compiled program once; a known hash is nothing to do."""

    def get_program(self, program_hash: str) -> str | None:
        """The compiled program's JSON, or None."""

    def get_flow(self, uuid: str) -> FlowDefinition | None:
        """The flow, or None."""

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        """The newest flow of that path, or None."""

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        """The newest flow of that name, or None."""

    def get_all_flows(self) -> list[FlowDefinition]:
        """Every flow, oldest first."""

    def find_flows(self, *, prefix: str = "", before: str = "", limit: int = 100) -> list[FlowDefinition]:
        """The newest flows whose id begins with `prefix`, newest first.

        `before` is the id of a flow: only those stored before it, for paging; none if it is gone.
        """

    def count_runs_of_flows(self, uuids: Sequence[str]) -> dict[str, int]:
        """How many runs each of these flows has; one without any may be missing."""

    def save_flow(self, flow: FlowDefinition) -> None:
        """Insert or replace a flow."""

    def delete_flow(self, uuid: str) -> bool:
        """Remove a flow; False if there is none."""

    def get_workflow(self, uuid: str) -> WorkflowDefinition | None:
        """The workflow, or None."""

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        """The newest workflow of that name, or None."""

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        """The workflows of a flow."""

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        """Insert or replace a workflow."""


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
