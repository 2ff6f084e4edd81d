"""Flows, workflows and compiled programs in MongoDB."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from pymongo.database import Database

from afl.runtime.entities import FlowDefinition, WorkflowDefinition
from afl.runtime.stores.mongo.collections import NEWEST_FIRST, OLDEST_FIRST, Collections, beginning
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.records import record_document, record_from

_LARGE_PROGRAM = 1024 * 1024


class FlowCollection(Collections):
    """The FlowStore protocol."""

    def save_program(self, program_hash: str, compiled: str) -> None:
        # A document holds 16 MiB; a program of that size shrinks to a twentieth.
        fields: Document = {"compiled": compiled}
        if len(compiled) > _LARGE_PROGRAM:
            fields = {"compressed": zlib.compress(compiled.encode())}

        def save(database: Database[Document]) -> None:
            database.programs.update_one({"hash": program_hash}, {"$setOnInsert": fields}, upsert=True)

        self.connection.upsert(save)

    def get_program(self, program_hash: str) -> str | None:
        found = self._one("programs", {"hash": program_hash})
        if found is None:
            return None
        if "compressed" in found:
            return zlib.decompress(found["compressed"]).decode()
        return str(found["compiled"])

    def get_flow(self, uuid: str) -> FlowDefinition | None:
        return self._flow({"uuid": uuid})

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        return self._flow({"name.path": path})

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        return self._flow({"name.name": name})

    def get_all_flows(self) -> list[FlowDefinition]:
        return [record_from(each, FlowDefinition) for each in self._all("flows", {}, sort=OLDEST_FIRST)]

    def find_flows(self, *, prefix: str = "", before: str = "", limit: int = 100) -> list[FlowDefinition]:
        query: Document = {"uuid": beginning(prefix)} if prefix else {}
        if before:
            start = self._one("flows", {"uuid": before}, projection={"seq": 1})
            if start is None:
                return []
            query["seq"] = {"$lt": start["seq"]}
        found = self._all("flows", query, sort=NEWEST_FIRST, limit=limit) if limit > 0 else []
        return [record_from(each, FlowDefinition) for each in found]

    def count_runs_of_flows(self, uuids: Sequence[str]) -> dict[str, int]:
        stages: list[Document] = [
            {"$match": {"flow_id": {"$in": list(uuids), "$gt": ""}}},
            {"$group": {"_id": "$flow_id", "found": {"$sum": 1}}},
        ]
        counted = self.connection.call(lambda db: list(db.runs.aggregate(stages)))
        return {each["_id"]: int(each["found"]) for each in counted}

    def save_flow(self, flow: FlowDefinition) -> None:
        self._save_in_order("flows", record_document(flow, f"flow {flow.uuid}", ("uuid", "name")))

    def delete_flow(self, uuid: str) -> bool:
        return self.connection.call(lambda db: db.flows.delete_one({"uuid": uuid}).deleted_count == 1)

    def get_workflow(self, uuid: str) -> WorkflowDefinition | None:
        found = self._one("workflows", {"uuid": uuid})
        return record_from(found, WorkflowDefinition) if found else None

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        found = self._one("workflows", {"name": name}, sort=[("date", -1), ("uuid", 1)])
        return record_from(found, WorkflowDefinition) if found else None

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        found = self._all("workflows", {"flow_id": flow_id}, sort=[("date", 1), ("uuid", 1)])
        return [record_from(each, WorkflowDefinition) for each in found]

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        columns = ("uuid", "name", "flow_id", "date")
        self._save("workflows", record_document(workflow, f"workflow {workflow.uuid}", columns))

    def _flow(self, query: dict[str, Any]) -> FlowDefinition | None:
        found = self._one("flows", query, sort=NEWEST_FIRST)
        return record_from(found, FlowDefinition) if found else None
