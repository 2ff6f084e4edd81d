"""What the MongoDB store tells those who watch it, keep figures of it, or look after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymongo.database import Database
from pymongo.errors import OperationFailure

from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.persistence.inspection import OrphanKind, Orphans, RunFigure, TaskCount, TaskLine
from afl.runtime.step import StepLine
from afl.runtime.stores.mongo.collections import NEWEST_RUN, OLDEST_FIRST, Collections
from afl.runtime.stores.mongo.connection import NOW, Document
from afl.runtime.stores.mongo.records import task_from
from afl.runtime.stores.mongo.servers import LockCollection, counter_key
from afl.runtime.stores.round_trip import is_received
from afl.runtime.types import StepId, WorkflowId

_NEWEST = 100  # about what a person sees of a list at a time
_ACTIVE_RUN = {"state": {"$in": [RunnerState.CREATED, RunnerState.RUNNING]}}
_RUN = {"_id": 0, "state": 1, "iterations": 1, "waiting": 1, "updated": 1, "settled": 1, "reason": 1}
_NUMBERS = ("deliveries", "failures", "created", "started", "updated")
_TASK: dict[str, Any] = {name: 0 if name in _NUMBERS else "" for name in TaskLine._fields}
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
            newest = database.runs.find({}, _LINE, sort=NEWEST_RUN, limit=_NEWEST)
            opened = database.runs.find(_ACTIVE_RUN, _LINE, sort=[("updated", -1)], limit=_NEWEST)
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
        return self.connection.call(lambda db: db.runs.count_documents(_ACTIVE_RUN))

    def get_step_lines(self, workflow_id: WorkflowId, below: StepId | None = None) -> list[StepLine]:
        fields = {"_id": 0, **dict.fromkeys(_STEP, 1)}
        query: Document = {"workflow_id": workflow_id}
        if below is not None:
            query = {"uuid": {"$gt": f"{below}/", "$lt": f"{below}0"}}
        found = self._all("steps", query, projection=fields, sort=_FIRST_STARTED)
        return [_step_line(each) for each in found]

    def get_task_lines(self, workflow_id: WorkflowId) -> list[TaskLine]:
        query = {"workflow_id": {"$eq": workflow_id, "$ne": ""}, "step_id": {"$gt": ""}}
        fields = {"_id": 0, **dict.fromkeys(TaskLine._fields, 1)}
        found = self._all("tasks", query, projection=fields, sort=OLDEST_FIRST)
        return [TaskLine(*(each.get(name) or empty for name, empty in _TASK.items())) for each in found]

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


_ALIKE = {"task_list": "$task_list_name", "name": "$name", "state": "$state", "hold": "$hold", "via": "$via"}
_DELAYED = {
    "$and": [{"$eq": ["$state", TaskState.PENDING]}, {"$lte": ["$hold", ""]}, {"$gt": ["$not_before", NOW]}]
}


class CensusCollection(Collections):
    """The CensusStore protocol."""

    def count_tasks(self) -> list[TaskCount]:
        alike = {**_ALIKE, "delayed": _DELAYED}
        group = {"_id": alike, "count": {"$sum": 1}, "oldest": {"$min": "$created"}}
        found = self.connection.call(
            lambda database: list(database.tasks.aggregate([{"$match": _OPEN_TASK}, {"$group": group}]))
        )
        return [
            TaskCount(
                **{name: each["_id"].get(name, "") for name in _ALIKE},
                count=each["count"],
                oldest=each["oldest"],
                delayed=each["_id"]["delayed"],
            )
            for each in found
        ]

    def count_runs(self) -> dict[str, int]:
        group = {"_id": "$state", "count": {"$sum": 1}}
        found = self.connection.call(lambda database: list(database.runs.aggregate([{"$group": group}])))
        return {each["_id"]: each["count"] for each in found}

    def get_run_figures(self, since: int, limit: int) -> list[RunFigure]:
        wanted = {"workflow_name": 1, "state": 1, "created": 1, "ended": 1, "_id": 0}
        found = self.connection.call(
            lambda database: list(
                database.runs.find({"created": {"$gte": since}}, wanted, sort=[("created", -1)], limit=limit)
            )
        )
        return [
            RunFigure(each["workflow_name"], each["state"], each["created"], each["ended"]) for each in found
        ]


_OPEN_TASK: Document = {"state": {"$in": [TaskState.PENDING, TaskState.RUNNING]}}
_OF_A_RUN: Document = {**_OPEN_TASK, "name": {"$not": {"$regex": "^afl:"}}}
_OPEN_RUN: Document = {"state": {"$in": [RunnerState.CREATED, RunnerState.RUNNING, RunnerState.PAUSED]}}
_SETTLED_RUN: Document = {"state": {"$in": [RunnerState.RUNNING, RunnerState.PAUSED]}, "settled": True}


@dataclass(frozen=True, slots=True)
class _Reference:
    """Documents of a collection, chosen by a query, whose field names one of another collection by its key."""

    collection: str
    chosen: Document
    field: str
    other: str
    key: str = "uuid"


_REFERENCES = {
    OrphanKind.TASK_RUN: _Reference("tasks", _OF_A_RUN, "workflow_id", "runs"),
    OrphanKind.TASK_STEP: _Reference("tasks", _OF_A_RUN, "step_id", "steps"),
    OrphanKind.TASK_FLOW: _Reference("tasks", _OPEN_TASK, "flow_id", "flows"),
    OrphanKind.STEP_RUN: _Reference("steps", {}, "workflow_id", "runs"),
    OrphanKind.RUN_PROGRAM: _Reference("runs", _OPEN_RUN, "program_hash", "programs", "hash"),
    OrphanKind.RUN_STEPS: _Reference("runs", _SETTLED_RUN, "uuid", "steps", "workflow_id"),
}


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a MongoDB server says of itself; None: it does not tell this user."""

    version: str
    members: int
    is_persistent: bool | None  # whether the storage engine writes to a disk
    is_journaled: bool | None  # whether a majority acknowledges what is in its journals


class InspectionCollection(LockCollection):
    """The InspectionStore protocol."""

    def receives_commits(self, timeout: float) -> bool | None:
        with self._new_notifier() as other:
            return is_received(self, self.notifier, other, timeout)

    def find_orphans(self, examples: int = 3) -> list[Orphans]:
        def look(database: Database[Document]) -> list[Orphans]:
            found: list[Orphans] = []
            for kind, reference in _REFERENCES.items():
                stages = _stages(reference, examples)
                (told,) = database[reference.collection].aggregate(stages)
                found += [
                    Orphans(kind, each["count"], [some["uuid"] for some in told["some"]])
                    for each in told["all"]
                ]
            return found

        return self.connection.transaction(look)

    def server_facts(self) -> ServerFacts:
        """What the server says of itself."""

        def ask(database: Database[Document]) -> ServerFacts:
            admin = database.client.admin
            hello = admin.command("hello")
            engine = _told(admin, "serverStatus").get("storageEngine", {})
            config = _told(admin, "replSetGetConfig").get("config", {})
            return ServerFacts(
                str(admin.command("buildInfo")["version"]),
                len(hello.get("hosts", [])),
                engine.get("persistent"),
                config.get("writeConcernMajorityJournalDefault"),
            )

        return self.connection.call(ask)


def _stages(reference: _Reference, examples: int) -> list[Document]:
    named = {reference.field: {"$nin": ["", None], **reference.chosen.get(reference.field, {})}}
    joined = {
        "from": reference.other,
        "localField": reference.field,
        "foreignField": reference.key,
        "pipeline": [{"$limit": 1}, {"$project": {"_id": 1}}],
        "as": "other",
    }
    return [
        {"$match": {**reference.chosen, **named}},
        {"$project": {"uuid": 1, reference.field: 1}},
        {"$lookup": joined},
        {"$match": {"other": []}},
        {
            "$facet": {
                "all": [{"$count": "count"}],
                "some": [{"$sort": {"uuid": 1}}, {"$limit": examples}, {"$project": {"uuid": 1}}],
            }
        },
    ]


def _told(admin: Database[Document], command: str) -> dict[str, Any]:
    try:
        return dict(admin.command(command))
    except OperationFailure:  # this user may not ask, or a router answers
        return {}
