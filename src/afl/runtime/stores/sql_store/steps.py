"""Steps and events in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel import codec
from afl.kernel.database import Transaction
from afl.kernel.notify import Notifications
from afl.runtime.events import event_of, mark_of_saved
from afl.runtime.persistence.changes import STEP_CONTINUE, EventDefinition, PublishedValue
from afl.runtime.persistence.topics import RUNS_TOPIC
from afl.runtime.step import StepDefinition
from afl.runtime.stores.sql_store.rows import event_from, event_row, step_from, step_row
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.task_rows import task_from
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId


class StepTables(Tables):
    """The StepStore protocol."""

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        rows = self.database.select(Q.get_step, id=step_id)
        return step_from(rows[0]) if rows else None

    def get_steps(self, step_ids: Sequence[StepId]) -> list[StepDefinition]:
        return [step_from(row) for row in self.database.select(Q.get_steps, ids=list(step_ids))]

    def get_open_steps(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return [step_from(row) for row in self.database.select(Q.get_open_steps, workflow_id=workflow_id)]

    def get_steps_by_block(self, block_id: StepId | BlockId) -> list[StepDefinition]:
        return [step_from(row) for row in self.database.select(Q.get_steps_by_block, block_id=block_id)]

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return [
            step_from(row) for row in self.database.select(Q.get_steps_by_workflow, workflow_id=workflow_id)
        ]

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        return [step_from(row) for row in self.database.select(Q.get_steps_by_state, state=state)]

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        rows = self.database.select(Q.get_steps_by_container, container_id=container_id)
        return [step_from(row) for row in rows]

    def get_lost_steps(self, limit: int = 100) -> list[StepDefinition]:
        return [step_from(row) for row in self.database.select(Q.get_lost_steps, limit=limit)]

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        rows = self.database.select(Q.get_workflow_root, workflow_id=workflow_id)
        return step_from(rows[0]) if rows else None

    def step_exists(self, statement_id: StatementId | str, block_id: StepId | BlockId | None) -> bool:
        return bool(self.database.select(Q.step_exists, statement_id=statement_id, block_id=block_id))

    def save_step(self, step: StepDefinition) -> None:
        row, mark = step_row(step), mark_of_saved(step)

        def save(tx: Transaction, notifications: Notifications) -> None:
            tx.many(Q.upsert_step, [row])
            if mark is not None:
                tx.many(Q.insert_mark, [event_row(mark)])
                notifications.add(tx, RUNS_TOPIC)

        self.notifying(save)


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


class PublishedTables(Tables):
    """The PublishedStore protocol."""

    def get_published(self, workflow_id: WorkflowId) -> list[PublishedValue]:
        rows = self.database.select(Q.get_published, workflow_id=workflow_id)
        return [
            PublishedValue(workflow_id, row["name"], codec.decode(row["value"]), row["updated"])
            for row in rows
        ]


def published_row(value: PublishedValue) -> dict[str, object]:
    """All columns of a published value."""
    text = codec.encode(value.value, what=f"the published value {value.name!r}")
    return {
        "workflow_id": value.workflow_id,
        "name": value.name,
        "value": text,
        "updated": value.updated,
    }
