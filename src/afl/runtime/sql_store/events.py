"""Events in SQL."""

from __future__ import annotations

from afl.runtime.changes import EventDefinition
from afl.runtime.sql_store.rows import event_from, event_row
from afl.runtime.sql_store.tables import Q, Tables
from afl.runtime.types import EventId, WorkflowId


class EventTables(Tables):
    """The EventStore protocol."""

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        rows = self.database.select(Q.get_event, id=event_id)
        return event_from(rows[0]) if rows else None

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        return [
            event_from(row) for row in self.database.select(Q.get_events_by_workflow, workflow_id=workflow_id)
        ]

    def get_marks(self, workflow_id: WorkflowId, limit: int = 1000) -> list[EventDefinition]:
        rows = self.database.select(Q.get_marks, workflow_id=workflow_id, limit=limit)
        return [event_from(row) for row in rows]

    def get_marked_runs(self, limit: int = 100) -> list[WorkflowId]:
        return [row["workflow_id"] for row in self.database.select(Q.get_marked_runs, limit=limit)]

    def save_event(self, event: EventDefinition) -> None:
        row = event_row(event)
        self.database.write(lambda tx: tx.many(Q.upsert_event, [row]))
