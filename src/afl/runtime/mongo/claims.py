"""Claims: who gets which task. Every claim is a compare-and-set on the task's own document.

A token tells a claimer which documents its own update changed. What the unique index on running tasks refuses is
left pending: another task of the same step is at work.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pymongo import ReturnDocument

from afl.kernel.clock import wall_ms
from afl.kernel.errors import StoreConflict
from afl.kernel.ids import random_id
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.mongo.collections import OLDEST_FIRST, Collections, lease, literal
from afl.runtime.mongo.connection import Document
from afl.runtime.mongo.records import task_from
from afl.runtime.mongo.tasks import CLAIM_ORDER

_WINDOW = 100  # how many pending tasks a claimer looks at, at least; others may be faster with the first ones


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
        while free := self._free(query, limit):
            claimed = (
                self._claim_first(free, change) if limit == 1 else self._claim(free[:limit], change, token)
            )
            if claimed:
                return [task_from(each) for each in claimed]
        return []

    def _claim_first(self, free: list[str], change: list[Document]) -> list[Document]:
        """The first of the tasks that nobody else claimed meanwhile."""
        pending = {"uuid": {"$in": free}, "state": TaskState.PENDING}
        try:
            found = self.connection.call(
                lambda db: db.tasks.find_one_and_update(
                    pending, change, sort=CLAIM_ORDER, return_document=ReturnDocument.AFTER
                )
            )
        except StoreConflict:
            return []  # another task of its step got in between
        return [found] if found else []

    def _claim(self, free: list[str], change: list[Document], token: str) -> list[Document]:
        """Those of the tasks that nobody else claimed meanwhile."""
        pending = {"uuid": {"$in": free}, "state": TaskState.PENDING}
        with suppress(StoreConflict):  # then a step got busy; the tasks before it are claimed all the same
            self.connection.call(lambda db: db.tasks.update_many(pending, change))
        return self._all("tasks", {"uuid": {"$in": free}, "claim": token}, sort=CLAIM_ORDER)

    def _free(self, query: Document, limit: int) -> list[str]:
        """Pending tasks that may be claimed, in claim order: of each step the oldest, if none is at work."""
        passed: set[str] = set()
        while True:
            others = {"step_id": {"$nin": list(passed)}} if passed else {}
            found = self._all(
                "tasks",
                {**query, **others},
                projection={"uuid": 1, "step_id": 1},
                sort=CLAIM_ORDER,
                limit=max(limit, _WINDOW),
            )
            first = self._first_of_steps([each["step_id"] for each in found if each.get("step_id")])
            free = [
                each["uuid"]
                for each in found
                if first.get(each.get("step_id") or "", each["uuid"]) == each["uuid"]
            ]
            if free or not found:
                return free
            passed.update(first)

    def _first_of_steps(self, step_ids: list[str]) -> dict[str, str]:
        """The task of each step whose turn it is: the one at work, else the oldest."""
        if not step_ids:
            return {}
        first: dict[str, str] = {}
        query = {"step_id": {"$in": step_ids}, "state": {"$in": [TaskState.PENDING, TaskState.RUNNING]}}
        shown = {"uuid": 1, "step_id": 1, "state": 1}
        for each in self._all("tasks", query, projection=shown, sort=OLDEST_FIRST):
            if each["state"] == TaskState.RUNNING or each["step_id"] not in first:
                first[each["step_id"]] = each["uuid"]
        return first


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
