"""What all the collections of the store share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database

from afl.kernel.notify import Notifier
from afl.runtime.entities import TaskHold, TaskState
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.stores.mongo.connection import NOW, Connection, Document, open_notifier_of
from afl.runtime.stores.store_base import StoreBase


def _index(name: str, *fields: str, **options: Any) -> IndexModel:
    keys = [(field.removeprefix("-"), DESCENDING if field[0] == "-" else ASCENDING) for field in fields]
    return IndexModel(keys, name=name, **options)


def _unique(name: str, field: str, **options: Any) -> IndexModel:
    return _index(name, field, unique=True, **options)


_RUNNING = {"state": TaskState.RUNNING}
_RUNNING_STEP = {"state": TaskState.RUNNING, "step_id": {"$type": "string", "$gt": ""}}
_CHILD: Document = {"parent_step": {"$gt": ""}}

INDEXES: dict[str, list[IndexModel]] = {
    "steps": [
        _unique("step_uuid_index", "uuid"),
        _index("step_workflow_id_index", "workflow_id"),
        _index("step_order_index", "workflow_id", "started", "uuid"),
        _index("step_block_id_index", "block_id"),
        _index("step_container_id_index", "container_id"),
        _index("step_state_index", "state"),
    ],
    "events": [
        _unique("event_uuid_index", "uuid"),
        _index("event_workflow_id_index", "workflow_id"),
        _index("event_step_id_index", "step_id"),
        _index("event_state_index", "state"),
        _index(
            "event_mark_index",
            "event_type",
            "workflow_id",
            partialFilterExpression={"event_type": STEP_CONTINUE},
        ),
        # Fields that only agents of other languages may write: sparse, so ours cost nothing.
        _index("event_runner_id_index", "runner_id", sparse=True),
        _index("event_topic_index", "topic", sparse=True),
        _index("event_handler_index", "handler", sparse=True),
        _unique(
            "event_step_id_running_unique_index", "step_id", partialFilterExpression={"state": "running"}
        ),
    ],
    "tasks": [
        _unique("task_uuid_index", "uuid"),
        _index("task_runner_id_index", "runner_id"),
        _index("task_step_id_index", "step_id"),
        _index("task_list_name_index", "task_list_name"),
        _index("task_state_index", "state"),
        _index("task_claim_index", "state", "name", "task_list_name"),
        _index("task_queue_index", "task_list_name", "state", "-priority", "seq"),
        _index("task_order_index", "workflow_id", "seq"),
        _index("task_run_state_index", "workflow_id", "state"),
        _index("task_newest_index", "-seq"),
        # Only where there is anything to find: most tasks have no hold, delay or deadline.
        _index("task_hold_index", "hold", "seq", partialFilterExpression={"hold": {"$gt": ""}}),
        _index(
            "task_elsewhere_run_index",
            "via",
            "workflow_id",
            "seq",
            partialFilterExpression={"hold": TaskHold.ELSEWHERE},
        ),
        _index("task_due_index", "not_before", partialFilterExpression={"not_before": {"$gt": 0}}),
        _index("task_deadline_index", "deadline", partialFilterExpression={"deadline": {"$gt": 0}}),
        _index("task_owner_index", "owner", partialFilterExpression=_RUNNING),
        _index("task_loose_index", "updated", partialFilterExpression={"step_id": ""}),
        # Only where there is a step: tasks of no step (afl:execute) run side by side.
        _unique("task_step_id_running_unique_index", "step_id", partialFilterExpression=_RUNNING_STEP),
    ],
    "attempts": [
        _index("attempt_task_index", "task_id", "number", unique=True),
        _index("attempt_workflow_id_index", "workflow_id"),
    ],
    "published": [_index("published_name_index", "workflow_id", "name", unique=True)],
    "history": [_index("history_number_index", "workflow_id", "number", unique=True)],
    "signals": [
        _index("signal_id_index", "workflow_id", "id", unique=True),
        _index(
            "signal_unreceived_index", "workflow_id", "name", "seq", partialFilterExpression={"task_id": ""}
        ),
    ],
    "runs": [
        _unique("run_uuid_index", "uuid"),
        _index("run_state_index", "state"),
        _index("run_owner_index", "owner"),
        _index("run_unsettled_index", "uuid", partialFilterExpression={"settled": False}),
        _index("run_created_index", "created", "uuid"),
        _index("run_state_created_index", "state", "created", "uuid"),
        _index("run_workflow_index", "workflow_name", "created", "uuid"),
        _index("run_ended_index", "ended", partialFilterExpression={"ended": {"$gt": 0}}),
        _index("run_origin_index", "origin", partialFilterExpression={"origin": {"$gt": ""}}),
        _index("run_parent_index", "parent_step", partialFilterExpression=_CHILD),
        _index("run_untold_index", "ended", partialFilterExpression={**_CHILD, "parent_told": 0}),
        _index(
            "run_unawaited_index",
            "on_parent_close",
            partialFilterExpression={**_CHILD, "parent_told": 1, "ended": 0},
        ),
        _index("run_words_index", "words", partialFilterExpression={"words": {"$exists": True}}),
        _index("run_unindexed_index", "unindexed", partialFilterExpression={"unindexed": True}),
        _index("run_tags_index", "tags", partialFilterExpression={"tags": {"$gt": ""}}),
        _index("run_flow_index", "flow_id", partialFilterExpression={"flow_id": {"$gt": ""}}),
    ],
    "programs": [_unique("program_hash_index", "hash")],
    "flows": [
        _unique("flow_uuid_index", "uuid"),
        _index("flow_path_index", "name.path"),
        _index("flow_name_index", "name.name"),
    ],
    "workflows": [
        _unique("workflow_uuid_index", "uuid"),
        _index("workflow_name_index", "name"),
        _index("workflow_flow_id_index", "flow_id"),
    ],
    "runners": [
        _unique("runner_uuid_index", "uuid"),
        _index("runner_workflow_id_index", "workflow_id"),
        _index("runner_state_index", "state"),
    ],
    "logs": [
        _unique("log_uuid_index", "uuid"),
        _index("log_runner_id_index", "runner_id"),
        _index("log_order_index", "runner_id", "order", "time"),
        _index("log_position_index", "runner_id", "seq"),
        _index("log_object_id_index", "object_id"),
    ],
    "servers": [_unique("server_uuid_index", "uuid")],
    "locks": [_unique("lock_key_index", "key"), _index("lock_expires_at_index", "expires_at")],
}


def create_all(database: Database[Document]) -> None:
    """Make what is missing; collections come with their first index."""
    for name, indexes in INDEXES.items():
        database[name].create_indexes(indexes)


OLDEST_FIRST = [("seq", 1), ("uuid", 1)]
NEWEST_FIRST = [("seq", -1), ("uuid", -1)]
NEWEST_RUN = [("created", -1), ("uuid", -1)]


class Collections(StoreBase):
    """A group of collections in a database."""

    connection: Connection
    capabilities: ClassVar[frozenset[str]] = frozenset({"retention"})

    @property
    def owner_id(self) -> str:
        """The name under which this process holds runs and tasks."""
        return self.connection.owner_id

    def _new_notifier(self) -> Notifier:
        return open_notifier_of(f"{self.connection.where} {self.connection.name}", self.doorbell)

    def _notify(self, topics: Iterable[str]) -> None:
        """After a write. There is nothing in it that could carry a notification."""
        named = set(topics)
        if named:
            self.notifier.after_commit(named, sent=False)

    def _one(self, collection: str, query: Mapping[str, Any], **options: Any) -> Document | None:
        return self.connection.call(lambda db: db[collection].find_one(query, **options))

    def _all(self, collection: str, query: Mapping[str, Any], **options: Any) -> list[Document]:
        return self.connection.call(lambda db: list(db[collection].find(query, **options)))

    def _save(self, collection: str, document: Document) -> None:
        """Insert or replace by uuid."""
        key = {"uuid": document["uuid"]}
        self.connection.upsert(lambda db: db[collection].replace_one(key, document, upsert=True))

    def _save_in_order(self, collection: str, document: Document) -> None:
        """As `_save`; what is new comes after all that there is, what is replaced keeps its place."""
        key, change = {"uuid": document["uuid"]}, replacement(document, self.connection.ticket(1).first)
        self.connection.upsert(lambda db: db[collection].update_one(key, change, upsert=True))

    def _update(self, collection: str, query: Mapping[str, Any], change: Any) -> bool:
        """Change the one document that fits; False if none does."""
        return self.connection.call(lambda db: db[collection].update_one(query, change).matched_count == 1)


def replacement(document: Document, seq: int) -> list[Document]:
    """The update that replaces a document, or inserts it at a place in the order of creation.

    Whether its run is paused is no field of a task: that stays too.
    """
    kept = {"_id": "$_id", "seq": {"$ifNull": ["$seq", seq]}, "paused": "$paused"}
    return [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, kept]}}]


def literal(document: Document) -> Document:
    """Fields for an update that also computes: values are data, whatever they look like."""
    return {name: {"$literal": value} for name, value in document.items()}


def lease(lease_ms: int) -> Document:
    """The end of a lease that begins now, by the server's clock."""
    return {"$add": [NOW, lease_ms]}


def longer(name: str, lease_ms: int) -> Document:
    """A lease that is renewed: it never gets shorter by that, and none stays none."""
    return {"$cond": [{"$gt": [f"${name}", 0]}, {"$max": [f"${name}", lease(lease_ms)]}, 0]}


def lease_ended() -> Document:
    """The condition that a lease was given and is over; its last millisecond still belongs to the holder."""
    return past("lease_until")


def past(name: str) -> Document:
    """The condition that a time is over by the server's clock."""
    return {"$expr": {"$lt": [f"${name}", NOW]}}


def counted(name: str, more: int = 1) -> Document:
    """A counter that goes up; agents of other languages may have left it out."""
    return {"$add": [{"$ifNull": [f"${name}", 0]}, more]}


def beginning(prefix: str) -> Document:
    """The condition that an id begins so."""
    return {"$regex": f"^{re.escape(prefix)}"}
