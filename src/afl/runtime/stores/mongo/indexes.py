"""The indexes of every collection. Names that say what they are for are those of the store's own queries."""

from __future__ import annotations

from typing import Any

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database

from afl.runtime.entities import TaskHold, TaskState
from afl.runtime.persistence.changes import STEP_CONTINUE

Document = dict[str, Any]


def _index(name: str, *fields: str, **options: Any) -> IndexModel:
    keys = [(field.removeprefix("-"), DESCENDING if field[0] == "-" else ASCENDING) for field in fields]
    return IndexModel(keys, name=name, **options)


def _unique(name: str, field: str, **options: Any) -> IndexModel:
    return _index(name, field, unique=True, **options)


_RUNNING = {"state": TaskState.RUNNING}
_RUNNING_STEP = {"state": TaskState.RUNNING, "step_id": {"$type": "string", "$gt": ""}}

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
        _index("task_newest_index", "-seq"),
        # Only where there is anything to find: most tasks have no hold, delay or deadline.
        _index("task_hold_index", "hold", "seq", partialFilterExpression={"hold": {"$gt": ""}}),
        _index("task_elsewhere_index", "via", "seq", partialFilterExpression={"hold": TaskHold.ELSEWHERE}),
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
    "runs": [
        _unique("run_uuid_index", "uuid"),
        _index("run_state_index", "state"),
        _index("run_owner_index", "owner"),
        _index("run_unsettled_index", "uuid", partialFilterExpression={"settled": False}),
        _index("run_ended_index", "ended", partialFilterExpression={"ended": {"$gt": 0}}),
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
