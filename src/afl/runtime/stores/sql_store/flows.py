"""Flows, workflows and compiled programs in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel import codec
from afl.kernel.database import Row
from afl.runtime.entities import FlowDefinition, WorkflowDefinition
from afl.runtime.stores.sql_store.tables import Q, Tables


class FlowTables(Tables):
    """The FlowStore protocol."""

    def save_program(self, program_hash: str, compiled: str) -> None:
        if not self.database.select(Q.get_program, hash=program_hash):
            self.database.write(lambda tx: tx.run(Q.save_program, hash=program_hash, compiled=compiled))

    def get_program(self, program_hash: str) -> str | None:
        rows = self.database.select(Q.get_program, hash=program_hash)
        return rows[0]["compiled"] if rows else None

    def get_flow(self, uuid: str) -> FlowDefinition | None:
        return _flow(self.database.select(Q.get_flow, uuid=uuid))

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        return _flow(self.database.select(Q.get_flow_by_path, path=path))

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        return _flow(self.database.select(Q.get_flow_by_name, name=name))

    def get_all_flows(self) -> list[FlowDefinition]:
        return [
            codec.decode_as(row["record"], FlowDefinition) for row in self.database.select(Q.get_all_flows)
        ]

    def find_flows(self, *, prefix: str = "", before: str = "", limit: int = 100) -> list[FlowDefinition]:
        rows = self.database.select(Q.find_flows, prefix=prefix, before=before, limit=limit)
        return [codec.decode_as(row["record"], FlowDefinition) for row in rows]

    def count_runs_of_flows(self, uuids: Sequence[str]) -> dict[str, int]:
        rows = self.database.select(Q.count_runs_of_flows, ids=list(uuids)) if uuids else []
        return {row["flow_id"]: int(row["found"]) for row in rows}

    def save_flow(self, flow: FlowDefinition) -> None:
        record = codec.encode(flow, what=f"flow {flow.uuid}")
        name, path = flow.name.name, flow.name.path
        self.database.write(
            lambda tx: tx.run(Q.save_flow, uuid=flow.uuid, name=name, path=path, record=record)
        )

    def delete_flow(self, uuid: str) -> bool:
        return bool(self.database.write(lambda tx: tx.run(Q.delete_flow, uuid=uuid)))

    def get_workflow(self, uuid: str) -> WorkflowDefinition | None:
        return _workflow(self.database.select(Q.get_workflow, uuid=uuid))

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        return _workflow(self.database.select(Q.get_workflow_by_name, name=name))

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        rows = self.database.select(Q.get_workflows_by_flow, flow_id=flow_id)
        return [codec.decode_as(row["record"], WorkflowDefinition) for row in rows]

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        record = codec.encode(workflow, what=f"workflow {workflow.uuid}")
        self.database.write(
            lambda tx: tx.run(
                Q.save_workflow,
                uuid=workflow.uuid,
                name=workflow.name,
                flow_id=workflow.flow_id,
                date=workflow.date,
                record=record,
            )
        )


def _flow(rows: list[Row]) -> FlowDefinition | None:
    return codec.decode_as(rows[0]["record"], FlowDefinition) if rows else None


def _workflow(rows: list[Row]) -> WorkflowDefinition | None:
    return codec.decode_as(rows[0]["record"], WorkflowDefinition) if rows else None
