"""What lists of runs need from MongoDB: which runs wait for something, and what their open steps wait for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from afl.runtime.entities import TaskHold, TaskState
from afl.runtime.persistence.run_lists import OpenWork, Waits
from afl.runtime.stores.mongo.collections import Collections, beginning
from afl.runtime.stores.mongo.connection import NOW, Document
from afl.runtime.stores.mongo.records import map_from
from afl.runtime.types import WorkflowId

_OPEN = {"$in": [TaskState.PENDING, TaskState.RUNNING]}


def _elsewhere(kind: str) -> Document:
    return {"hold": TaskHold.ELSEWHERE, "state": TaskState.PENDING, "via": beginning(f"{kind}:")}


_WAITING: dict[str, Document] = {
    Waits.PERSON: _elsewhere("human"),
    Waits.SIGNAL: _elsewhere("signal"),
    Waits.RUN: _elsewhere("run"),
    Waits.TIMER: {"hold": TaskHold.TIMER, "state": TaskState.PENDING},
    Waits.SLOT: {"hold": TaskHold.CONCURRENCY, "state": TaskState.PENDING},
    Waits.RETRY: {"not_before": {"$gt": 0}, "failures": {"$gt": 0}, "state": _OPEN},
    Waits.AGENT: {"hold": "", "state": TaskState.PENDING},
}
_ALIKE: Document = {
    "workflow_id": "$workflow_id",
    "name": "$name",
    "task_list": "$task_list_name",
    "state": "$state",
    "hold": {"$ifNull": ["$hold", ""]},
    "via": {
        "$cond": [
            {"$eq": [{"$substrCP": [{"$ifNull": ["$via", ""]}, 0, 4]}, "run:"]},
            "run:",
            {"$ifNull": ["$via", ""]},
        ]
    },
    "retried": {"$gt": [{"$ifNull": ["$failures", 0]}, 0]},
    "rated": {"$and": [{"$lt": [{"$ifNull": ["$concurrency_limit", 0]}, 0]}, {"$gt": ["$not_before", NOW]}]},
}


class RunListCollection(Collections):
    """The RunListStore protocol."""

    def runs_waiting(self, kinds: Sequence[str]) -> list[str]:
        """The runs with open work that waits for one of these: words of Waits."""
        chosen = {"$or": [_WAITING[kind] for kind in kinds]}
        found: list[str] = self.connection.call(lambda db: db.tasks.distinct("workflow_id", chosen))
        return found

    def count_runs_up_to(self, state: str, most: int) -> int:
        return self.connection.call(lambda db: db.runs.count_documents({"state": state}, limit=most))

    def get_open_work(self, workflow_ids: Sequence[WorkflowId]) -> list[OpenWork]:
        if not workflow_ids:
            return []
        chosen = {"workflow_id": {"$in": list(workflow_ids)}, "state": _OPEN, "step_id": {"$gt": ""}}
        group = {"_id": _ALIKE, "count": {"$sum": 1}}
        found = self.connection.call(
            lambda db: list(db.tasks.aggregate([{"$match": chosen}, {"$group": group}]))
        )
        return [OpenWork(**each["_id"], count=each["count"]) for each in found]

    def get_leading_inputs(
        self, workflow_ids: Sequence[WorkflowId], length: int = 400
    ) -> dict[WorkflowId, str]:
        """They are read as a whole: a document has no text to cut."""
        named = {"uuid": {"$in": list(workflow_ids)}}
        found = self._all("runs", named, projection={"uuid": 1, "inputs": 1}) if workflow_ids else []
        texts = {each["uuid"]: _text(each.get("inputs")) for each in found}
        return {run: text[:length] for run, text in texts.items() if text}


def _text(stored: Any) -> str:
    """Inputs as JSON; empty without any, or if they cannot be read."""
    try:
        inputs = map_from(stored)
    except ValueError:
        return ""
    return json.dumps(inputs, ensure_ascii=False, default=str) if inputs else ""
