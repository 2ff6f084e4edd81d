"""Claims: who gets which task. Every claim is a compare-and-set on the task's own document.

A token tells a claimer which documents its own update changed. What the unique index on running tasks refuses is
left pending: another task of the same step is at work.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.errors import StoreConflict
from afl.kernel.ids import random_id
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.stores.mongo.collections import OLDEST_FIRST, Collections, counted, lease, literal
from afl.runtime.stores.mongo.connection import NOW, Document, find_one_and_update
from afl.runtime.stores.mongo.records import task_from
from afl.runtime.stores.mongo.servers import locked_by_others
from afl.runtime.stores.mongo.tasks import CLAIM_ORDER

_WINDOW = 100  # how many pending tasks a claimer looks at, at least; others may be faster with the first ones
_ANY_EVENT: Document = {"name": {"$not": {"$regex": "^afl:"}}}


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a claim gives."""

    owner: str
    lease_ms: int
    lock_ms: int
    token: str

    def change(self) -> list[Document]:
        """The change that a claim is."""
        fields = {"state": TaskState.RUNNING, "owner": self.owner, "claim": self.token, "updated": wall_ms()}
        times = {
            "lease_until": lease(self.lease_ms) if self.lease_ms else 0,
            "lock_until": lease(self.lock_ms) if self.lock_ms else 0,
            "locked_at": NOW,
            "started": 0,
        }
        counters = {name: counted(name) for name in ("epoch", "deliveries")}
        return [{"$set": {**literal(fields), **counters, **times}}]


class ClaimCollection(Collections):
    """`claim_task` and `claim_tasks` of the ClaimStore protocol."""

    def claim_tasks(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        limit: int,
        owner: str = "",
        lease_ms: int = 0,
        lock_ms: int = 0,
        while_alive: bool = False,
        workflow_id: str | None = None,
        any_event: bool = False,
    ) -> list[TaskDefinition]:
        terms = _Terms(owner or self.owner_id, lease_ms, lock_ms, random_id())
        free = _free(task_list, workflow_id)
        claimed: list[Document] = []
        if task_names and limit > 0:
            claimed = self._claim([free, _served(task_names)], terms, limit)
        if any_event and len(claimed) < limit:
            claimed += self._claim([free, _ANY_EVENT], terms, limit - len(claimed))
        return [task_from(each) for each in claimed]

    def _claim(self, conditions: list[Document], terms: _Terms, limit: int) -> list[Document]:
        while chosen := self._choose(conditions, terms.owner, limit):
            # The conditions again: a task may have been paused, or put off, since it was chosen.
            query = {"$and": [*conditions, {"uuid": {"$in": chosen[:limit] if limit > 1 else chosen}}]}
            claimed = self._claim_first(query, terms) if limit == 1 else self._claim_all(query, terms)
            if claimed:
                return claimed
        return []

    def _claim_first(self, query: Document, terms: _Terms) -> list[Document]:
        """The first of the tasks that nobody else claimed meanwhile."""
        change = terms.change()
        try:
            found = self.connection.call(
                lambda db: find_one_and_update(db.tasks, query, change, sort=CLAIM_ORDER)
            )
        except StoreConflict:
            return []  # another task of its step got in between
        return [found] if found else []

    def _claim_all(self, query: Document, terms: _Terms) -> list[Document]:
        """Those of the tasks that nobody else claimed meanwhile."""
        change = terms.change()
        with suppress(StoreConflict):  # then a step got busy; the tasks before it are claimed all the same
            self.connection.call(lambda db: db.tasks.update_many(query, change))
        uuids = query["$and"][-1]["uuid"]
        return self._all("tasks", {"uuid": uuids, "claim": terms.token}, sort=CLAIM_ORDER)

    def _choose(self, conditions: list[Document], owner: str, limit: int) -> list[str]:
        """Tasks that may be claimed, in claim order: of each step the oldest, if none is at work."""
        passed_steps: set[str] = set()
        passed: set[str] = set()
        while True:
            others = {"step_id": {"$nin": list(passed_steps)}, "uuid": {"$nin": list(passed)}}
            found = self._all(
                "tasks",
                {"$and": [*conditions, others]},
                projection={"uuid": 1, "step_id": 1},
                sort=CLAIM_ORDER,
                limit=max(limit, _WINDOW),
            )
            first = self._first_of_steps([each["step_id"] for each in found if each.get("step_id")])
            chosen = [
                each["uuid"]
                for each in found
                if first.get(each.get("step_id") or "", each["uuid"]) == each["uuid"]
            ]
            locked = self.connection.call(partial(locked_by_others, uuids=chosen, owner=owner))
            unlocked = [uuid for uuid in chosen if uuid not in locked]
            if unlocked or not found:
                return unlocked
            passed_steps.update(first)
            passed.update(locked)

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


def _free(task_list: str, workflow_id: str | None) -> Document:
    """The condition that a task of a list, or of a run, waits to be claimed and shall not wait longer."""
    place = {"task_list_name": task_list} if workflow_id is None else {"workflow_id": workflow_id}
    return {
        **place,
        "state": TaskState.PENDING,
        "hold": {"$in": ["", None]},
        "$expr": {"$lte": [{"$ifNull": ["$not_before", 0]}, NOW]},
    }


def _served(task_names: list[str]) -> dict[str, Any]:
    """The tasks that the names serve: a dotted name itself, a dotless one any namespace's."""
    short = [name for name in task_names if "." not in name]
    return {"$or": [{"name": {"$in": task_names}}, {"short_name": {"$in": short}}]}
