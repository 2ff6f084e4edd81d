"""What lists of runs need from MongoDB: which runs wait for something, and what their open steps wait for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pymongo import UpdateOne

from afl.runtime.entities import RunDefinition, RunnerState, TaskHold, TaskState
from afl.runtime.persistence.run_lists import OpenWork, Waits
from afl.runtime.stores.mongo.collections import NEWEST_RUN, Collections, beginning
from afl.runtime.stores.mongo.connection import NOW, Document
from afl.runtime.stores.mongo.records import map_from, run_from
from afl.runtime.stores.search_words import BEGINNING, run_words, words_in
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
    Waits.AGENT: {
        "$or": [
            {"hold": "", "state": TaskState.PENDING},
            *(_elsewhere(kind) for kind in ("agent", "fleet", "message")),
        ]
    },
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


# An error is a map, or JSON text where BSON could not hold it.
_SEARCHED = (
    "uuid",
    "name",
    "workflow_name",
    "reason",
    "error",
    *(f"error.{key}" for key in ("message", "error_type", "step", "facet")),
)
_CATCH_UP = 2_000
_NEWEST = 10_000


class RunListCollection(Collections):
    """The RunListStore and SearchStore protocols."""

    def runs_waiting(self, kinds: Sequence[str]) -> list[str]:
        """The runs with open work that waits for one of these: words of Waits."""
        if Waits.BUDGET in kinds:
            paused = {"state": RunnerState.PAUSED, "reason": beginning(Waits.BUDGET)}
            return [each["uuid"] for each in self._all("runs", paused, projection={"uuid": 1})]
        chosen = {"$or": [_WAITING[kind] for kind in kinds]}
        found: list[str] = self.connection.call(lambda db: db.tasks.distinct("workflow_id", chosen))
        return found

    def index_runs(self, limit: int = 1_000) -> int:
        found = self._all("runs", {"unindexed": True}, limit=limit)
        changes = [
            UpdateOne(  # if it was not changed meanwhile
                {"_id": each["_id"], "updated": each["updated"]},
                {"$set": {"words": _words(each)}, "$unset": {"unindexed": ""}},
            )
            for each in found
        ]
        if changes:
            self.connection.call(lambda db: db.runs.bulk_write(changes, ordered=False))
        return len(found)

    def with_text(self, text: str) -> Document:
        """The condition on runs that a text finds."""
        self.index_runs(_CATCH_UP)
        words = words_in(text)
        whole = [f"^{word}{'' if len(word) >= BEGINNING else '$'}" for word in words]
        starts = [{"uuid": beginning(start)} for start in {text.strip(), text.strip().lower()}]
        condition: Document = {"$or": [{"words": {"$all": [re.compile(each) for each in whole]}}, *starts]}
        if words and self._one("runs", condition, projection={"_id": 1}) is not None:
            return condition
        oldest = self._one("runs", {}, projection={"created": 1}, sort=NEWEST_RUN, skip=_NEWEST)
        containing = {"$regex": re.escape(text), "$options": "i"}
        anywhere: Document = {"$or": [{field: containing} for field in _SEARCHED]}
        return anywhere if oldest is None else {**anywhere, "created": {"$gt": oldest["created"]}}

    def by_cost(self, at_least: float, at_most: float) -> Document:
        """The condition on runs whose models cost so much: all records of use are added up for it."""
        costs: list[Document] = [
            {"$group": {"_id": "$workflow_id", "cost": {"$sum": "$cost_usd"}}},
            {"$match": {"cost": {"$gte": at_least} if at_least else {"$gt": at_most}}},
        ]
        found = self.connection.call(lambda db: list(db.usage.aggregate(costs)))
        if not at_least:
            return {"uuid": {"$nin": [each["_id"] for each in found]}}
        return {"uuid": {"$in": [each["_id"] for each in found if not at_most or each["cost"] <= at_most]}}

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

    def get_runs_from(self, origin: str, limit: int = 100) -> list[RunDefinition]:
        if limit < 1:
            return []
        below = {"origin": {"$gt": f"{origin}/", "$lt": f"{origin}0"}}  # the zero comes after the slash
        query = {"$or": [{"origin": origin}, below]}
        found = self._all("runs", query, projection={"inputs": 0}, sort=NEWEST_RUN, limit=limit)
        return [run_from(each) for each in found]


def _words(document: Document) -> list[str]:
    inputs, outputs, error = (_text(document.get(name)) for name in ("inputs", "outputs", "error"))
    return run_words(
        document["uuid"],
        workflow=document["workflow_name"],
        name=document.get("name", ""),
        tags=" ".join(document.get("tags", ())),
        inputs=inputs,
        outputs=outputs,
        error=error,
        reason=document.get("reason", ""),
    )


def _text(stored: Any) -> str:
    """Inputs as JSON; empty without any, or if they cannot be read."""
    try:
        inputs = map_from(stored)
    except ValueError:
        return ""
    return json.dumps(inputs, ensure_ascii=False, default=str) if inputs else ""
