"""Claims: who gets which task. Every claim is a compare-and-set on the task's own document.

A token tells a claimer which documents its own update changed. What the unique index on running tasks refuses is
left pending: another task of the same step is at work.
"""

from __future__ import annotations

from typing import Any

from pymongo import ReturnDocument

from afl.kernel.clock import wall_ms
from afl.kernel.errors import StoreConflict
from afl.kernel.ids import random_id
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.mongo.collections import Collections, lease, literal
from afl.runtime.mongo.connection import Document
from afl.runtime.mongo.records import task_from
from afl.runtime.mongo.tasks import CLAIM_ORDER

_WINDOW = 100  # how many pending tasks are looked at, at least, to find those of steps that are free


class ClaimCollection(Collections):
    """`claim_task` and `claim_tasks` of the TaskStore protocol."""

    def claim_task(
        self, task_names: list[str], task_list: str = "default", *, owner: str = "", lease_ms: int = 0
    ) -> TaskDefinition | None:
        claimed = self.claim_tasks(task_names, task_list, limit=1, owner=owner, lease_ms=lease_ms)
        return claimed[0] if claimed else None

    def claim_tasks(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        limit: int,
        owner: str = "",
        lease_ms: int = 0,
        workflow_id: str | None = None,
    ) -> list[TaskDefinition]:
        if not task_names or limit < 1:
            return []
        query = _served(task_names, task_list, workflow_id)
        token = random_id()
        change = _running(owner or self.owner_id, lease_ms, token)
        claimed = self._claim_first(query, change) if limit == 1 else None
        if claimed is None:
            claimed = self._claim_batch(query, change, token, limit)
        return [task_from(each) for each in claimed]

    def _claim_first(self, query: Document, change: list[Document]) -> list[Document] | None:
        """The first task, in one round trip; None when it must wait for another one of its step."""
        try:
            found = self.connection.call(
                lambda db: db.tasks.find_one_and_update(
                    query, change, sort=CLAIM_ORDER, return_document=ReturnDocument.AFTER
                )
            )
        except StoreConflict:
            return None
        return [found] if found else []

    def _claim_batch(self, query: Document, change: list[Document], token: str, limit: int) -> list[Document]:
        """The first tasks of steps that are free; those that others claimed meanwhile are left to them."""
        while ids := self._free(query, limit):
            pending = {"uuid": {"$in": ids}, "state": TaskState.PENDING}
            self._claim_all(pending, change)
            claimed = self._all("tasks", {"uuid": {"$in": ids}, "claim": token}, sort=CLAIM_ORDER)
            if claimed:
                return claimed
        return []

    def _claim_all(self, pending: Document, change: list[Document]) -> None:
        try:
            self.connection.call(lambda db: db.tasks.update_many(pending, change))
        except StoreConflict:
            return  # a step got busy meanwhile; those before it are claimed, those after it wait for the next call

    def _free(self, query: Document, limit: int) -> list[str]:
        """Pending tasks in claim order, the first of each step, without those of steps at work."""
        busy: set[str] = set()
        while True:
            passed = {"step_id": {"$nin": list(busy)}} if busy else {}
            found = self._all(
                "tasks",
                {**query, **passed},
                projection={"uuid": 1, "step_id": 1},
                sort=CLAIM_ORDER,
                limit=max(limit, _WINDOW),
            )
            running = self._running_steps([each["step_id"] for each in found if each.get("step_id")])
            free = _first_of_each_step(found, busy | running)
            if free or not found:
                return free[:limit]
            busy |= running

    def _running_steps(self, step_ids: list[str]) -> set[str]:
        if not step_ids:
            return set()
        query = {"step_id": {"$in": step_ids}, "state": TaskState.RUNNING}
        return {each["step_id"] for each in self._all("tasks", query, projection={"step_id": 1})}


def _first_of_each_step(tasks: list[Document], busy: set[str]) -> list[str]:
    taken = set(busy)
    free = []
    for task in tasks:
        step_id = task.get("step_id")
        if not step_id or step_id not in taken:
            free.append(task["uuid"])
            taken.add(step_id or "")
    return free


def _served(task_names: list[str], task_list: str, workflow_id: str | None) -> dict[str, Any]:
    """The pending tasks that the names serve: a dotted name itself, a dotless one any namespace's."""
    short = [name for name in task_names if "." not in name]
    query: dict[str, Any] = {
        "task_list_name": task_list,
        "state": TaskState.PENDING,
        "$or": [{"name": {"$in": task_names}}, {"short_name": {"$in": short}}],
    }
    if workflow_id is not None:
        query["workflow_id"] = workflow_id
    return query


def _running(owner: str, lease_ms: int, token: str) -> list[Document]:
    """The change that a claim is; agents of other languages may have left out the counters."""
    counters = {name: {"$add": [{"$ifNull": [f"${name}", 0]}, 1]} for name in ("epoch", "deliveries")}
    fields = {"state": TaskState.RUNNING, "owner": owner, "claim": token, "updated": wall_ms(), "started": 0}
    return [{"$set": {**literal(fields), **counters, "lease_until": lease(lease_ms) if lease_ms else 0}}]
