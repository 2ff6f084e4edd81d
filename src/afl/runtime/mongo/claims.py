"""Claims: who gets which task.

Candidates are read in claim order outside the transaction that takes them. A candidate that another transaction is
writing to counts as taken, as with SKIP LOCKED in SQL, so claimers pass each other instead of waiting in line.
"""

from __future__ import annotations

from typing import Any

from pymongo.client_session import ClientSession
from pymongo.database import Database

from afl.kernel.clock import wall_ms
from afl.kernel.errors import StoreConflict
from afl.kernel.ids import random_id
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.mongo.collections import Collections, lease, literal, set_event_states
from afl.runtime.mongo.connection import ContendedError, Document
from afl.runtime.mongo.records import task_from
from afl.runtime.mongo.tasks import CLAIM_ORDER
from afl.runtime.states import EventState

_AHEAD = 16  # how many candidates a claimer of one task looks at


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
        blocked: list[str] = []
        tried = 0
        while candidates := self._candidates(query, limit, blocked):
            claimed = self._claim(candidates, limit, owner or self.owner_id, lease_ms, blocked)
            if claimed:
                return claimed
            if len(blocked) == tried:  # nothing learned: others were faster; look again
                self.connection.wait(2)
            tried = len(blocked)
        return []

    def _candidates(self, query: Document, limit: int, blocked: list[str]) -> list[Document]:
        """Pending tasks in claim order, at most one of each step; those of a step at work are passed over."""
        while True:
            found = self._all(
                "tasks",
                {**query, "uuid": {"$nin": blocked}} if blocked else query,
                projection={"uuid": 1, "step_id": 1},
                sort=CLAIM_ORDER,
                limit=limit + _AHEAD,
            )
            free = self._free(found, blocked)
            if free or not found:
                return free

    def _free(self, found: list[Document], blocked: list[str]) -> list[Document]:
        steps = list({each["step_id"] for each in found if each.get("step_id")})
        running = {"state": TaskState.RUNNING, "step_id": {"$in": steps}}
        busy = {each["step_id"] for each in self._all("tasks", running, projection={"step_id": 1})}
        free = []
        for each in found:
            step_id = each.get("step_id")
            if step_id and step_id in busy:
                blocked.append(each["uuid"])
            else:
                busy.add(step_id)
                free.append(each)
        return free

    def _claim(
        self, candidates: list[Document], limit: int, owner: str, lease_ms: int, blocked: list[str]
    ) -> list[TaskDefinition]:
        """The first ones together; if another claimer is in the way, one by one."""
        ids = [each["uuid"] for each in candidates]
        try:
            claimed = self._take_pending(ids[:limit], owner, lease_ms)
            if claimed or len(ids) <= limit:
                return claimed
        except (ContendedError, StoreConflict):
            claimed = []
        for uuid in ids:
            try:
                claimed += self._take_pending([uuid], owner, lease_ms)
            except ContendedError:
                continue
            except StoreConflict:  # another task of its step was claimed meanwhile
                blocked.append(uuid)
            if len(claimed) == limit:
                break
        return claimed

    def _take_pending(self, ids: list[str], owner: str, lease_ms: int) -> list[TaskDefinition]:
        """Those of the tasks that are still pending, now running, with their events Dispatched."""
        token = random_id()
        change = _running(owner, lease_ms, token)

        def take(database: Database[Document], session: ClientSession) -> list[Document]:
            pending = {"uuid": {"$in": ids}, "state": TaskState.PENDING}
            if not database.tasks.update_many(pending, change, session=session).matched_count:
                return []
            mine = {"uuid": {"$in": ids}, "claim": token}
            taken = list(database.tasks.find(mine, sort=CLAIM_ORDER, session=session))
            set_event_states(database, session, [each["uuid"] for each in taken], EventState.DISPATCHED)
            return taken

        return [task_from(each) for each in self.connection.attempt(take)]


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
    fields = literal({"state": TaskState.RUNNING, "owner": owner, "claim": token, "updated": wall_ms()})
    return [{"$set": {**fields, **counters, "lease_until": lease(lease_ms) if lease_ms else 0}}]
