"""Rows that refer to what is not there, in MongoDB, and what its server says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import OperationFailure

from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.persistence.inspection import OrphanKind, Orphans
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.locks import LockCollection
from afl.runtime.stores.round_trip import is_received

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
        def look(database: Database[Document], session: ClientSession) -> list[Orphans]:
            found: list[Orphans] = []
            for kind, reference in _REFERENCES.items():
                stages = _stages(reference, examples)
                (told,) = database[reference.collection].aggregate(stages, session=session)
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
