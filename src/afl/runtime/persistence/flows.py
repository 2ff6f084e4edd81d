"""What a store does with flows and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afl.runtime.entities import FlowDefinition, WorkflowDefinition


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
