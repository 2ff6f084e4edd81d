"""The task queue in MongoDB: storing and finding tasks, their attempts, and work that goes on elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from pymongo import UpdateOne
from pymongo.database import Database

from afl.kernel.clock import wall_ms
from afl.runtime.entities import (
    KEPT_ATTEMPTS,
    AttemptDefinition,
    TaskDefinition,
    TaskHold,
    TaskState,
    as_stored,
    failure_logs,
    in_order,
)
from afl.runtime.persistence.tasks import ANY_TASK, TaskFilter
from afl.runtime.persistence.topics import ELSEWHERE_TOPIC, tasks_topic
from afl.runtime.stores.mongo.collections import (
    NEWEST_FIRST,
    OLDEST_FIRST,
    Collections,
    beginning,
    counted,
    lease,
    literal,
    past,
)
from afl.runtime.stores.mongo.connection import NOW, Document
from afl.runtime.stores.mongo.records import map_value, task_document, task_from
from afl.runtime.stores.mongo.servers import append_logs, log_document
from afl.runtime.types import StepId, WorkflowId

CLAIM_ORDER = [("priority", -1), ("seq", 1), ("uuid", 1)]


class TaskCollection(Collections):
    """The TaskStore protocol, apart from what leases and outcomes have."""

    def get_task(self, uuid: str) -> TaskDefinition | None:
        found = self._one("tasks", {"uuid": uuid})
        return task_from(found) if found else None

    def get_task_by_step(self, step_id: StepId) -> TaskDefinition | None:
        found = self._one("tasks", {"step_id": {"$eq": step_id, "$ne": ""}}, sort=NEWEST_FIRST)
        return task_from(found) if found else None

    def get_pending_tasks(self, task_list: str) -> list[TaskDefinition]:
        return self._tasks({"task_list_name": task_list, "state": TaskState.PENDING}, sort=CLAIM_ORDER)

    def get_tasks_by_workflow(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        return self._tasks({"workflow_id": {"$eq": workflow_id, "$ne": ""}}, sort=OLDEST_FIRST)

    def get_held_back(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        waiting = [
            {"hold": {"$nin": ["", None]}},
            {"concurrency_key": {"$nin": ["", None]}},
            {"not_before": {"$gt": 0}},
        ]
        return self._tasks(
            {"workflow_id": workflow_id, "state": TaskState.PENDING, "$or": waiting}, sort=OLDEST_FIRST
        )

    def get_tasks_by_runner(self, runner_id: str) -> list[TaskDefinition]:
        """All tasks that a runner's runs created, in creation order."""
        return self._tasks({"runner_id": runner_id}, sort=OLDEST_FIRST)

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        return self._tasks({}, sort=NEWEST_FIRST, limit=limit) if limit > 0 else []

    def find_tasks(self, wanted: TaskFilter = ANY_TASK) -> list[TaskDefinition]:
        asked = {
            "state": wanted.state,
            "task_list_name": wanted.task_list,
            "hold": wanted.hold,
            "owner": wanted.owner,
            "workflow_id": wanted.workflow_id,
            "concurrency_key": wanted.key,
        }
        query: Document = {field: value for field, value in asked.items() if value}
        if wanted.hold == TaskHold.ELSEWHERE and not wanted.state:
            query["state"] = TaskState.PENDING
        if wanted.via:
            query["via"] = wanted.via if ":" in wanted.via else of_kind(wanted.via)
        if wanted.after:
            before = self._one("tasks", {"uuid": wanted.after}, projection={"seq": 1})
            query["seq"] = {"$gt": before["seq"] if before else sys.maxsize}
        if wanted.prefix:
            query["uuid"] = beginning(wanted.prefix)
        if wanted.name:
            query["$or"] = [{"name": wanted.name}, {"short_name": wanted.name}]
        return self._tasks(query, sort=OLDEST_FIRST, limit=wanted.limit) if wanted.limit > 0 else []

    def save_task(self, task: TaskDefinition) -> None:
        self._save_in_order("tasks", task_document(as_stored(task)))
        if task.state == TaskState.PENDING:
            self._notify([ELSEWHERE_TOPIC if task.via else tasks_topic(task.task_list_name)])

    def update_task_state(self, uuid: str, state: str) -> bool:
        """Set a task's state, without any fence; False if there is none."""
        return self._update("tasks", {"uuid": uuid}, {"$set": {"state": state, "updated": wall_ms()}})

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        deadline = {"$cond": [{"$gt": ["$timeout_ms", 0]}, {"$add": [NOW, "$timeout_ms"]}, 0]}
        change = [{"$set": {"started": wall_ms(), "deadline": deadline}}]
        writes = [UpdateOne(held_by_its_claim(task), change) for task in tasks]
        if writes:
            self.connection.call(lambda db: db.tasks.bulk_write(writes, ordered=False))

    def _tasks(self, query: dict[str, Any], **options: Any) -> list[TaskDefinition]:
        return [task_from(each) for each in self._all("tasks", query, **options)]


def of_kind(kind: str) -> Document:
    """The condition on `via` that the work goes on at that kind of place: the semicolon comes after the colon."""
    return {"$gte": f"{kind}:", "$lt": f"{kind};"}


def held_by_its_claim(task: TaskDefinition) -> Document:
    """The condition that a claim is still what the task says."""
    return {"uuid": task.uuid, "state": TaskState.RUNNING, "owner": task.owner, "epoch": task.epoch}


_OPEN = [TaskState.PENDING, TaskState.RUNNING]
_VIA: Document = {"$ifNull": ["$via", ""]}
_IS_NEVER_TOLD: Document = {"$in": [{"$substrBytes": [_VIA, 0, 6]}, ["human:", "signal"]]}

# What the hold of a task becomes when somebody but the other side ends it: the mark that it has not been told.
UNTOLD: Document = {
    "$cond": [
        {"$eq": [_VIA, ""]},
        {"$ifNull": ["$hold", ""]},
        {"$cond": [_IS_NEVER_TOLD, "", TaskHold.ELSEWHERE]},
    ]
}


def new_elsewhere(task: Document, now: int) -> Document:
    """What a new task that is done elsewhere has besides: its times begin at once."""
    return {
        "hold": TaskHold.ELSEWHERE,
        "deadline": now + task["timeout_ms"] if task["timeout_ms"] else 0,
        "lease_until": now + task["patience_ms"] if task["patience_ms"] else 0,
    }


def elsewhere_or(hold: Any) -> Document:
    """The hold of a task that may go on: elsewhere, if that is where it is done."""
    return {"$cond": [{"$eq": [_VIA, ""]}, hold, TaskHold.ELSEWHERE]}


def begins(length: str, start: Any) -> Document:
    """The end of a time (`timeout_ms`, `patience_ms`) of a task elsewhere that begins at `start`; 0 without any."""
    has_one = {"$and": [{"$ne": [_VIA, ""]}, {"$gt": [{"$ifNull": [f"${length}", 0]}, 0]}]}
    return {"$cond": [has_one, {"$add": [start, f"${length}"]}, 0]}


class ElsewhereCollection(Collections):
    """The ElsewhereStore protocol."""

    def hand_over(
        self, task: TaskDefinition, via: str, bridge: dict[str, Any] | None = None, *, patience_ms: int = 0
    ) -> bool:
        place = {
            "state": TaskState.PENDING,
            "hold": TaskHold.ELSEWHERE,
            "via": via,
            "bridge": map_value(bridge, f"the bridge of task {task.uuid}"),
            "patience_ms": patience_ms,
            "last_owner": task.owner,
            "owner": "",
            "lock_until": 0,
            "started": 0,
            "updated": wall_ms(),
        }
        times = {
            "epoch": counted("epoch"),
            "deadline": {"$cond": [{"$gt": ["$timeout_ms", 0]}, {"$add": [NOW, "$timeout_ms"]}, 0]},
            "lease_until": lease(patience_ms) if patience_ms else 0,
        }
        return self._moved(held_by_its_claim(task), {**literal(place), **times})

    def get_unanswered(self, limit: int = 100) -> list[TaskDefinition]:
        over = {"lease_until": {"$gt": 0}, **past("lease_until")}
        return self._elsewhere({"state": TaskState.PENDING, **over}, limit)

    def ask_next(self, task: TaskDefinition, via: str) -> bool:
        asked = {
            "via": via,
            "bridge": map_value(task.bridge, f"the bridge of task {task.uuid}"),
            "patience_ms": task.patience_ms,
            "updated": wall_ms(),
        }
        until = lease(task.patience_ms) if task.patience_ms else 0
        return self._moved(still_elsewhere(task), {**literal(asked), "lease_until": until})

    def ended_elsewhere(self, kind: str, limit: int = 100) -> list[TaskDefinition]:
        return self._elsewhere({"state": {"$nin": _OPEN}, "via": of_kind(kind)}, limit)

    def told(self, task: TaskDefinition) -> bool:
        untold = {"uuid": task.uuid, "hold": TaskHold.ELSEWHERE, "state": {"$nin": _OPEN}}
        return self._update("tasks", untold, {"$set": {"hold": ""}})

    def _elsewhere(self, query: Document, limit: int) -> list[TaskDefinition]:
        if limit < 1:
            return []
        found = self._all("tasks", {"hold": TaskHold.ELSEWHERE, **query}, sort=OLDEST_FIRST, limit=limit)
        return [task_from(each) for each in found]

    def _moved(self, expected: Document, change: Document) -> bool:
        done = self._update("tasks", expected, [{"$set": change}])
        if done:
            self._notify([ELSEWHERE_TOPIC])
        return done


class TimerCollection(Collections):
    """The TimerStore protocol."""

    def next_timer(self) -> int | None:
        stages: list[Document] = [
            {"$match": _TIMERS},
            {"$sort": {"deadline": 1}},
            {"$limit": 1},
            {"$project": {"due": {"$subtract": ["$deadline", NOW]}}},
        ]
        found = self.connection.call(lambda db: list(db.tasks.aggregate(stages)))
        return int(found[0]["due"]) if found else None

    def due_timers(self, limit: int = 500) -> list[TaskDefinition]:
        over = {**_TIMERS, **past("deadline")}
        return [task_from(each) for each in self._all("tasks", over, sort=[("deadline", 1)], limit=limit)]


_TIMERS: Document = {"hold": TaskHold.TIMER, "state": TaskState.PENDING, "deadline": {"$gt": 0}}


def still_elsewhere(task: TaskDefinition) -> Document:
    """The condition that a task is where the caller thinks."""
    return {
        "uuid": task.uuid,
        "state": TaskState.PENDING,
        "hold": TaskHold.ELSEWHERE,
        "epoch": task.epoch,
        "via": task.via,
    }


_FIELDS = [field.name for field in fields(AttemptDefinition)]


class AttemptCollection(Collections):
    """The AttemptStore protocol."""

    def get_failed_attempts(
        self, workflow_id: str, task_id: str = "", limit: int = 1000
    ) -> list[AttemptDefinition]:
        query = {"workflow_id": workflow_id, **({"task_id": task_id} if task_id else {})}
        found = self._all("attempts", query, sort=[("task_id", 1), ("number", 1)], limit=limit)
        return in_order(AttemptDefinition(**{name: each[name] for name in _FIELDS}) for each in found)


def write_attempts(database: Database[Document], attempts: list[AttemptDefinition]) -> None:
    """Store attempts that ended, and what the logs of their runs say of them; of many keep the first and the newest."""
    if not attempts:
        return
    database.attempts.bulk_write([_insertion(each) for each in attempts])
    for each in attempts:
        if each.number > KEPT_ATTEMPTS + 1:
            old = {"$gt": 1, "$lte": each.number - KEPT_ATTEMPTS}
            database.attempts.delete_many({"task_id": each.task_id, "number": old})
    append_logs(database, [log_document(log) for log in failure_logs(attempts)])


def _insertion(attempt: AttemptDefinition) -> UpdateOne:
    key = {"task_id": attempt.task_id, "number": attempt.number}
    return UpdateOne(key, {"$setOnInsert": asdict(attempt)}, upsert=True)
