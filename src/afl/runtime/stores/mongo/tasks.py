"""The task queue in MongoDB: reading and saving. Claims, leases and outcomes have files of their own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pymongo import UpdateOne

from afl.kernel.clock import wall_ms
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState, as_stored
from afl.runtime.persistence.tasks import ANY_TASK, TaskFilter
from afl.runtime.persistence.topics import ELSEWHERE_TOPIC, tasks_topic
from afl.runtime.stores.mongo.collections import NEWEST_FIRST, OLDEST_FIRST, Collections, beginning
from afl.runtime.stores.mongo.connection import NOW, Document
from afl.runtime.stores.mongo.records import task_document, task_from
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
