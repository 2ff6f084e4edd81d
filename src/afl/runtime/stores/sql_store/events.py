"""Events in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel.database import Transaction
from afl.kernel.notify import Notifications
from afl.runtime.events import event_of
from afl.runtime.persistence.changes import STEP_CONTINUE, EventDefinition
from afl.runtime.persistence.topics import RUNS_TOPIC
from afl.runtime.stores.sql_store.step_rows import event_from, event_row
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.task_rows import task_from
from afl.runtime.types import EventId, WorkflowId


class EventTables(Tables):
    """The EventStore protocol."""

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        def find(tx: Transaction) -> EventDefinition | None:
            row = tx.one(Q.get_event, id=event_id)
            if row is not None:
                return event_from(row)
            task = tx.one(Q.get_task, uuid=event_id)
            return event_of(task_from(task)) if task is not None and task["step_id"] else None

        return self.database.read(find)

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        def find(tx: Transaction) -> list[EventDefinition]:
            saved = [event_from(row) for row in tx.all(Q.get_events_by_workflow, workflow_id=workflow_id)]
            tasks = [task_from(row) for row in tx.all(Q.get_tasks_without_event, workflow_id=workflow_id)]
            return sorted([*saved, *map(event_of, tasks)], key=lambda event: event.id)

        return self.database.read(find)

    def get_marks(self, workflow_id: WorkflowId, limit: int = 1000) -> list[EventDefinition]:
        rows = self.database.select(Q.get_marks, workflow_id=workflow_id, limit=limit)
        return [event_from(row) for row in rows]

    def get_marks_of(self, workflow_ids: Sequence[WorkflowId], limit: int = 10_000) -> list[EventDefinition]:
        rows = self.database.select(Q.get_marks_of, ids=list(workflow_ids), limit=limit)
        return [event_from(row) for row in rows]

    def save_event(self, event: EventDefinition) -> None:
        row = event_row(event)

        def save(tx: Transaction, notifications: Notifications) -> None:
            tx.many(Q.upsert_event, [row])
            if event.event_type == STEP_CONTINUE:
                notifications.add(tx, RUNS_TOPIC)

        self.notifying(save)
