"""Steps and events in MongoDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import UpdateOne
from pymongo.database import Database

from afl.kernel import codec
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.events import event_of, mark_of_saved
from afl.runtime.persistence.changes import STEP_CONTINUE, EventDefinition, PublishedValue
from afl.runtime.persistence.topics import RUNS_TOPIC
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.stores.mongo.collections import Collections
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.records import event_document, event_from, step_document, step_from, task_from
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId

_OLDEST_FIRST = [("started", 1), ("uuid", 1)]
_CLOSED = [StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR]


class StepCollection(Collections):
    """The StepStore protocol."""

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        found = self._one("steps", {"uuid": step_id})
        return step_from(found) if found else None

    def get_steps(self, step_ids: Sequence[StepId]) -> list[StepDefinition]:
        return self._steps({"uuid": {"$in": list(step_ids)}}) if step_ids else []

    def get_open_steps(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._steps({"workflow_id": workflow_id, "state": {"$nin": _CLOSED}})

    def get_steps_by_block(self, block_id: StepId | BlockId) -> list[StepDefinition]:
        return self._steps({"block_id": block_id})

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._steps({"workflow_id": workflow_id})

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        return self._steps({"state": state})

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        return self._steps({"container_id": container_id})

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        query = {"workflow_id": workflow_id, "root_id": None, "container_id": None}
        found = self._one("steps", query, sort=_OLDEST_FIRST)
        return step_from(found) if found else None

    def get_lost_steps(self, limit: int = 100) -> list[StepDefinition]:
        if limit < 1:
            return []
        found = self.connection.call(lambda db: list(db.steps.aggregate(_lost_steps(limit))))
        return self.get_steps([each["uuid"] for each in found])

    def step_exists(self, statement_id: StatementId | str, block_id: StepId | BlockId | None) -> bool:
        query = {"block_id": block_id, "statement_id": statement_id}
        return self._one("steps", query, projection={"uuid": 1}) is not None

    def save_step(self, step: StepDefinition) -> None:
        document, mark = step_document(step), mark_of_saved(step)
        if mark is None:
            self._save("steps", document)
            return
        word = event_document(mark)

        def save(database: Database[Document]) -> None:
            database.steps.replace_one({"uuid": step.id}, document, upsert=True)
            database.events.update_one({"uuid": mark.id}, {"$setOnInsert": word}, upsert=True)

        self.connection.transaction(save)
        self._notify([RUNS_TOPIC])

    def _steps(self, query: dict[str, Any]) -> list[StepDefinition]:
        return [step_from(each) for each in self._all("steps", query, sort=_OLDEST_FIRST)]


def _lost_steps(limit: int) -> list[Document]:
    """Steps that wait for outside work which nobody does; ids only, since steps may be large."""
    open_tasks = {"state": {"$in": [TaskState.PENDING, TaskState.RUNNING]}}
    free_runs = {"state": RunnerState.RUNNING, "owner": ""}
    return [
        {"$match": {"state": StepState.EVENT_TRANSMIT}},
        {"$project": {"uuid": 1, "workflow_id": 1}},
        *_joined("tasks", "uuid", "step_id", open_tasks, wanted=False),
        *_joined("events", "uuid", "step_id", {"event_type": STEP_CONTINUE}, wanted=False),
        *_joined("runs", "workflow_id", "uuid", free_runs, wanted=True),
        {"$sort": {"uuid": 1}},
        {"$limit": limit},
    ]


def _joined(collection: str, field: str, foreign: str, match: Document, *, wanted: bool) -> list[Document]:
    """The stages that keep what has, or has not, a partner in another collection."""
    partner = [{"$match": match}, {"$limit": 1}, {"$project": {"_id": 1}}]
    return [
        {
            "$lookup": {
                "from": collection,
                "localField": field,
                "foreignField": foreign,
                "pipeline": partner,
                "as": "partner",
            }
        },
        {"$match": {"partner": {"$ne": []} if wanted else []}},
    ]


class EventCollection(Collections):
    """The EventStore protocol. An open task is its own event; what is stored is how it ended, and marks."""

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        found = self._one("events", {"uuid": event_id})
        if found is not None:
            return event_from(found)
        task = self._one("tasks", {"uuid": event_id, "step_id": {"$gt": ""}})
        return event_of(task_from(task)) if task is not None else None

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        query = {"workflow_id": workflow_id}
        events = {each["uuid"]: event_from(each) for each in self._all("events", query)}
        for each in self._all("tasks", {**query, "step_id": {"$gt": ""}}):
            events.setdefault(each["uuid"], event_of(task_from(each)))
        return [events[uuid] for uuid in sorted(events)]

    def get_marks(self, workflow_id: WorkflowId, limit: int = 1000) -> list[EventDefinition]:
        if limit < 1:
            return []
        query = {"workflow_id": workflow_id, "event_type": STEP_CONTINUE}
        return [event_from(each) for each in self._all("events", query, limit=limit)]

    def get_marks_of(self, workflow_ids: Sequence[WorkflowId], limit: int = 10_000) -> list[EventDefinition]:
        query = {"workflow_id": {"$in": list(workflow_ids)}, "event_type": STEP_CONTINUE}
        return [event_from(each) for each in self._all("events", query, limit=limit)]

    def save_event(self, event: EventDefinition) -> None:
        self._save("events", event_document(event))
        if event.event_type == STEP_CONTINUE:
            self._notify([RUNS_TOPIC])


class PublishedCollection(Collections):
    """The PublishedStore protocol."""

    def get_published(self, workflow_id: WorkflowId) -> list[PublishedValue]:
        found = self._all("published", {"workflow_id": workflow_id}, sort=[("name", 1)])
        return [
            PublishedValue(workflow_id, each["name"], codec.decode(each["value"]), each["updated"])
            for each in found
        ]


def publication(value: PublishedValue) -> UpdateOne:
    """The write that makes this the latest value of its name."""
    text = codec.encode(value.value, what=f"the published value {value.name!r}")
    key = {"workflow_id": value.workflow_id, "name": value.name}
    return UpdateOne(key, {"$set": {"value": text, "updated": value.updated}}, upsert=True)
