"""Cheap looks in MongoDB, for those who watch."""

from __future__ import annotations

from typing import Any

from pymongo.database import Database

from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.step import StepLine
from afl.runtime.stores.mongo.collections import OLDEST_FIRST, Collections
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.logs import counter_key
from afl.runtime.stores.mongo.records import task_from
from afl.runtime.types import StepId, WorkflowId

_NEWEST = 100  # about what a person sees of a list at a time
_OPEN = {"state": {"$in": [RunnerState.CREATED, RunnerState.RUNNING]}}
_RUN = {"_id": 0, "state": 1, "iterations": 1, "waiting": 1, "updated": 1, "settled": 1, "reason": 1}
_STEP = ("uuid", "object_type", "state", "facet_name", "started", "ended")
_FIRST_STARTED = [("started", 1), ("uuid", 1)]
_LINE = {"_id": 0, "uuid": 1, "state": 1, "updated": 1, "waiting": 1}


class PulseCollection(Collections):
    """The PulseStore protocol."""

    def run_pulse(self, workflow_id: WorkflowId) -> tuple[Any, ...] | None:
        def look(database: Database[Document]) -> tuple[Any, ...] | None:
            run = database.runs.find_one({"uuid": workflow_id}, _RUN)
            if run is None:
                return None
            tasks = database.tasks.aggregate([{"$match": {"workflow_id": workflow_id}}, _sums()])
            return (*_values(run), *(value for each in tasks for value in _values(each)))

        found = self.connection.call(look)
        return None if found is None else (*found, self.log_end(workflow_id))

    def runs_pulse(self) -> tuple[Any, ...]:
        def look(database: Database[Document]) -> tuple[Any, ...]:
            newest = database.runs.find({}, _LINE, sort=[("uuid", -1)], limit=_NEWEST)
            opened = database.runs.find(_OPEN, _LINE, sort=[("updated", -1)], limit=_NEWEST)
            return tuple(_values(each) for each in (*newest, *opened))

        return self.connection.call(look)

    def tasks_pulse(self) -> tuple[Any, ...]:
        def look(database: Database[Document]) -> tuple[Any, ...]:
            newest = database.tasks.find_one({}, {"uuid": 1}, sort=[("_id", -1)])
            counts = [
                database.tasks.count_documents({"state": TaskState.PENDING, "hold": ""}),
                database.tasks.count_documents({"state": TaskState.PENDING, "hold": {"$ne": ""}}),
                database.tasks.count_documents({"state": TaskState.RUNNING}),
            ]
            return (newest["uuid"] if newest is not None else "", *counts)

        return self.connection.call(look)

    def log_end(self, runner_id: str) -> int:
        found = self.connection.call(lambda db: db.counters.find_one({"_id": counter_key(runner_id)}))
        return int(found["seq"]) if found is not None else 0

    def count_open_runs(self) -> int:
        return self.connection.call(lambda db: db.runs.count_documents(_OPEN))

    def get_step_lines(self, workflow_id: WorkflowId) -> list[StepLine]:
        fields = {"_id": 0, **dict.fromkeys(_STEP, 1)}
        found = self._all("steps", {"workflow_id": workflow_id}, projection=fields, sort=_FIRST_STARTED)
        return [_step_line(each) for each in found]

    def get_running_steps(self, workflow_id: WorkflowId) -> set[StepId]:
        query = {"workflow_id": workflow_id, "state": TaskState.RUNNING}
        found = self._all("tasks", query, projection={"step_id": 1})
        return {StepId(each["step_id"]) for each in found if each["step_id"]}

    def get_tasks_by_step(self, step_id: StepId) -> list[TaskDefinition]:
        found = self._all("tasks", {"step_id": {"$eq": step_id, "$ne": ""}}, sort=OLDEST_FIRST)
        return [task_from(each) for each in found]


def _step_line(document: Document) -> StepLine:
    facet = document["facet_name"] or ""
    return StepLine(
        document["uuid"],
        document["object_type"],
        document["state"],
        facet,
        document["started"],
        document["ended"],
    )


def _sums() -> Document:
    pending = {"$cond": [{"$eq": ["$state", TaskState.PENDING]}, 1, 0]}
    held = {"$cond": [{"$gt": ["$hold", ""]}, 1, 0]}
    return {
        "$group": {
            "_id": None,
            "tasks": {"$sum": 1},
            "epochs": {"$sum": "$epoch"},
            "latest": {"$max": "$updated"},
            "pending": {"$sum": pending},
            "held": {"$sum": held},
            "failures": {"$sum": "$failures"},
        }
    }


def _values(document: Document) -> tuple[Any, ...]:
    return tuple(value for _, value in sorted(document.items()))
