"""Events in MongoDB."""

from __future__ import annotations

from collections.abc import Sequence

from afl.runtime.events import event_of
from afl.runtime.persistence.changes import STEP_CONTINUE, EventDefinition
from afl.runtime.persistence.topics import RUNS_TOPIC
from afl.runtime.stores.mongo.collections import Collections
from afl.runtime.stores.mongo.records import event_document, event_from, task_from
from afl.runtime.types import EventId, WorkflowId


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
