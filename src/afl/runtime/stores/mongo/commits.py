"""The heart of the store: the fenced, atomic commit of an iteration, in one transaction of few round trips."""

from __future__ import annotations

from typing import Any

from pymongo import DeleteMany, InsertOne, ReplaceOne, UpdateOne
from pymongo.database import Database

from afl.kernel.errors import CapabilityError, FencedError
from afl.runtime.entities import RunDefinition, TaskHold, ended_attempts
from afl.runtime.persistence.changes import IterationChanges, subtree
from afl.runtime.persistence.history import history_text
from afl.runtime.stores.mongo.collections import Collections, lease, literal
from afl.runtime.stores.mongo.connection import Document, Ticket
from afl.runtime.stores.mongo.history import append_history
from afl.runtime.stores.mongo.outcomes import closing
from afl.runtime.stores.mongo.records import (
    event_document,
    run_document,
    step_changes,
    step_document,
    task_document,
)
from afl.runtime.stores.mongo.servers import append_logs, log_document
from afl.runtime.stores.mongo.steps import publication
from afl.runtime.stores.mongo.tasks import new_elsewhere, write_attempts
from afl.runtime.types import StepId


class CommitCollection(Collections):
    """`commit` of PersistenceAPI."""

    def commit(self, changes: IterationChanges) -> None:
        _refuse_concurrency(changes)
        writes = _Writes(changes, self.lease_ms, self.run_lease_ms)
        if changes.created_tasks:
            writes.place_tasks(self.connection.ticket(len(changes.created_tasks)))
        self.connection.transaction(writes.apply)
        self._notify(changes.topics(writes.attempts))


class _Writes:
    """The documents of a commit, made before the transaction begins: encoding takes longer than writing."""

    def __init__(self, changes: IterationChanges, lease_ms: int, run_lease_ms: int) -> None:
        self._run_lease_ms = run_lease_ms
        self._run, self._new_run, self._lease_ms = changes.run, changes.new_run, lease_ms
        self._run_fields = {} if changes.run is None else run_document(changes.run)
        self._children = changes.created_runs
        self._child_documents = [{**run_document(run), "lease_until": 0} for run in changes.created_runs]
        if not changes.new_run:
            for name in (
                "inputs",
                "parent_told",
            ):  # whoever takes a run does not read the one, others write the other
                self._run_fields.pop(name, None)
            if changes.run is not None and not changes.run.is_over and not changes.tags:
                del self._run_fields["unindexed"]
        created = {step.id for step in changes.created_steps}
        self._steps = [step_document(step) for step in changes.created_steps]
        self._old_steps = [
            UpdateOne({"uuid": step.id}, {"$set": step_changes(step)})
            for step in changes.updated_steps
            if step.id not in created
        ]
        self._consumed = list(changes.consumed_events)
        tasks = {task.uuid for task in changes.created_tasks}  # an open task is its own event
        self._events = [event_document(event) for event in changes.created_events if event.id not in tasks]
        self._old_events = [
            ReplaceOne({"uuid": event.id}, event_document(event), upsert=True)
            for event in changes.updated_events
        ]
        self._tasks = [task_document(task) for task in changes.created_tasks]
        self._held = [closing(task) for task in changes.updated_tasks if task.owner]
        self._unheld = [closing(task) for task in changes.updated_tasks if not task.owner]
        self.attempts = ended_attempts(changes.updated_tasks)
        self._logs = [log_document(log) for log in changes.logs]
        self._published = [publication(value) for value in changes.published.values()]
        self._history = history_text(changes.history) if changes.history else ""
        self._removed = list(changes.removed)

    def place_tasks(self, ticket: Ticket) -> None:
        """Give new tasks their places in the order of creation, and times to those that are born claimed."""
        for seq, task in enumerate(self._tasks, ticket.first):
            task["seq"] = seq
            task["lease_until"] = ticket.now + self._lease_ms if task["owner"] else 0
            if task["via"]:
                task.update(new_elsewhere(task, ticket.now))
            elif task["hold"] == TaskHold.TIMER and not task["deadline"]:
                task["deadline"] = ticket.now + task["timeout_ms"]

    def apply(self, database: Database[Document]) -> None:
        """Write it all; the fences come first."""
        if self._run is not None:
            self._write_run(database, self._run)
        for child, document in zip(self._children, self._child_documents, strict=True):
            _write_child(database, child, document)
        if self._held:
            closed = database.tasks.bulk_write(self._held)
            if closed.matched_count != len(self._held):
                raise FencedError("a task to be closed is no longer held; nothing was written")
        consumed = [DeleteMany({"uuid": {"$in": self._consumed}})] if self._consumed else []
        _write(database, "steps", [*map(InsertOne, self._steps), *self._old_steps])
        _write(database, "events", [*consumed, *map(InsertOne, self._events), *self._old_events])
        _write(database, "tasks", [*map(InsertOne, self._tasks), *self._unheld])
        _write(database, "published", self._published)
        if self._history and self._run is not None:
            append_history(database, self._run.workflow_id, self._history)
        append_logs(database, self._logs)
        write_attempts(database, self.attempts)
        for step_id in self._removed:
            _remove(database, step_id)

    def _write_run(self, database: Database[Document], run: RunDefinition) -> None:
        held = lease(self._run_lease_ms) if run.owner else 0
        change = [{"$set": {**literal(self._run_fields), "lease_until": held}}]
        if self._new_run:
            # The query fits no stored run, so this inserts, or is refused as a conflict.
            absent = {"uuid": run.workflow_id, "epoch": {"$exists": False}}
            database.runs.update_one(absent, change, upsert=True)
        else:
            query = {"uuid": run.workflow_id, "epoch": run.epoch}
            if not database.runs.update_one(query, change).matched_count:
                raise FencedError(
                    f"run {run.workflow_id} was taken over by another evaluator; nothing was written"
                )
        if run.is_over and run.runner_id:
            end = runner_end(run.state, run.ended, run.workflow_id)
            database.runners.update_one({"uuid": run.runner_id}, end)


def _write_child(database: Database[Document], run: RunDefinition, document: Document) -> None:
    """Insert a child run; one that the same step started before stays, and its parent is to be told again."""
    stored = database.runs.find_one({"uuid": run.workflow_id}, {"parent_step": 1})
    if stored is None:
        database.runs.insert_one(document)
    elif stored.get("parent_step") != run.parent_step:
        raise FencedError(
            f"the id {run.workflow_id} of a child run is that of another run; nothing was written"
        )
    else:
        told = {"$set": {"parent_told": run.parent_told}}
        database.runs.update_one({"uuid": run.workflow_id}, told)


def runner_end(state: str, ended: int, workflow_id: str) -> list[Document]:
    """The runner record follows its run to its end."""
    fields = literal({"state": state, "end_time": ended, "workflow_id": workflow_id})
    return [{"$set": {**fields, "duration": {"$subtract": [ended, "$start_time"]}}}]


def _write(database: Database[Document], collection: str, writes: list[Any]) -> None:
    if writes:
        database[collection].bulk_write(writes)


def _remove(database: Database[Document], step_id: StepId) -> None:
    first, beyond = subtree(step_id)
    inside = {"$gte": first, "$lt": beyond}
    told: Document = {"step_id": inside, "hold": {"$ne": TaskHold.ELSEWHERE}}
    tasks = [each["uuid"] for each in database.tasks.find(told, {"uuid": 1})]
    if tasks:
        database.attempts.delete_many({"task_id": {"$in": tasks}})
        database.tasks.delete_many({"uuid": {"$in": tasks}})
    database.events.delete_many({"step_id": inside})
    database.steps.delete_many({"uuid": inside})


def _refuse_concurrency(changes: IterationChanges) -> None:
    for task in changes.created_tasks:
        if task.concurrency_key:
            raise CapabilityError(
                f"task {task.name} of run {task.workflow_id} has the concurrency key {task.concurrency_key!r}; "
                "the MongoDB store has no such keys: leave out `with Concurrency`, or use PostgreSQL or SQLite"
            )
