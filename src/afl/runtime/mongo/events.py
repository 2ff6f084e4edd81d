"""Events in MongoDB."""

from __future__ import annotations

from afl.runtime.changes import STEP_CONTINUE, EventDefinition
from afl.runtime.entities import RunnerState
from afl.runtime.mongo.collections import OLDEST_FIRST, Collections, lease_ended
from afl.runtime.mongo.connection import Document
from afl.runtime.mongo.records import event_document, event_from
from afl.runtime.types import EventId, WorkflowId


class EventCollection(Collections):
    """The EventStore protocol."""

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        found = self._one("events", {"uuid": event_id})
        return event_from(found) if found else None

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        found = self._all("events", {"workflow_id": workflow_id}, sort=OLDEST_FIRST)
        return [event_from(each) for each in found]

    def get_marks(self, workflow_id: WorkflowId, limit: int = 1000) -> list[EventDefinition]:
        if limit < 1:
            return []
        query = {"workflow_id": workflow_id, "event_type": STEP_CONTINUE}
        return [event_from(each) for each in self._all("events", query, sort=OLDEST_FIRST, limit=limit)]

    def get_marked_runs(self, limit: int = 100) -> list[WorkflowId]:
        if limit < 1:
            return []
        stages = _marked_runs(limit)
        found = self.connection.call(lambda db: list(db.events.aggregate(stages)))
        return [each["_id"] for each in found]

    def save_event(self, event: EventDefinition) -> None:
        self._save_in_order("events", event_document(event))


def _marked_runs(limit: int) -> list[Document]:
    unheld = {"$or": [{"owner": ""}, lease_ended()], "state": RunnerState.RUNNING}
    return [
        {"$match": {"event_type": STEP_CONTINUE}},
        {"$group": {"_id": "$workflow_id", "oldest": {"$min": "$seq"}}},
        {"$sort": {"oldest": 1, "_id": 1}},
        {
            "$lookup": {
                "from": "runs",
                "localField": "_id",
                "foreignField": "uuid",
                "pipeline": [{"$match": unheld}, {"$project": {"uuid": 1}}],
                "as": "run",
            }
        },
        {"$match": {"run": {"$ne": []}}},
        {"$limit": limit},
    ]
