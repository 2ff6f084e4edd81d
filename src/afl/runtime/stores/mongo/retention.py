"""What is removed once it is old, in MongoDB: runs with all that belongs to them, and tasks that belong to none."""

from __future__ import annotations

from typing import Any

from pymongo.database import Database

from afl.kernel.clock import wall_ms
from afl.runtime.entities import TaskHold, TaskState
from afl.runtime.persistence.retention import UNTOLD_MS
from afl.runtime.stores.mongo.collections import Collections
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.logs import counter_key

_ENDED = [TaskState.COMPLETED, TaskState.FAILED, TaskState.IGNORED, TaskState.CANCELED]
_UNTOLD: Document = {"hold": TaskHold.ELSEWHERE, "state": {"$in": _ENDED}}


class RetentionCollection(Collections):
    """The RetentionStore protocol."""

    def delete_runs(self, ended_before: int, limit: int) -> int:
        if limit < 1:
            return 0
        ended: Document = {"ended": {"$gt": 0, "$lt": ended_before}}
        untold = self.connection.call(lambda database: database.tasks.distinct("workflow_id", _UNTOLD))
        if untold:  # the other side works on for them until it is told, or for a day
            ended = {**ended, "$or": [{"ended": {"$lt": wall_ms() - UNTOLD_MS}}, {"uuid": {"$nin": untold}}]}
        shown = {"uuid": 1, "runner_id": 1}
        found = self._all("runs", ended, projection=shown, sort=[("ended", 1)], limit=limit)
        return self.connection.call(lambda database: _delete_runs(database, found)) if found else 0

    def delete_tasks(self, ended_before: int, limit: int) -> int:
        old = _loose(ended_before)
        found = (
            self._all("tasks", old, projection={"uuid": 1}, sort=[("updated", 1)], limit=limit)
            if limit > 0
            else []
        )
        ids = [each["uuid"] for each in found]
        if not ids:
            return 0
        self.connection.call(lambda database: database.attempts.delete_many({"task_id": {"$in": ids}}))
        return self.connection.call(
            lambda database: database.tasks.delete_many({"uuid": {"$in": ids}, **old}).deleted_count
        )

    def delete_logs(self, written_before: int, limit: int) -> int:
        if limit < 1:
            return 0
        found = self._all("logs", {"runner_id": ""}, projection={"_id": 1}, sort=[("seq", 1)], limit=limit)
        old: Document = {"_id": {"$in": [each["_id"] for each in found]}, "time": {"$lt": written_before}}
        return (
            self.connection.call(lambda database: database.logs.delete_many(old).deleted_count)
            if found
            else 0
        )

    def count_old_tasks(self, ended_before: int) -> int:
        return self.connection.call(lambda database: database.tasks.count_documents(_loose(ended_before)))


def _loose(ended_before: int) -> Document:
    """Tasks of no step that ended, as far as is known; whether anybody elsewhere is to be told of it matters more."""
    return {
        "step_id": "",
        "state": {"$in": _ENDED},
        "hold": {"$ne": TaskHold.ELSEWHERE},
        "updated": {"$gt": 0, "$lt": ended_before},
    }


def _delete_runs(database: Database[Document], runs: list[Document]) -> int:
    """Runs with all that belongs to them, they themselves last: whoever is interrupted here can begin again.

    How many this one removed: others may be at the same ones.
    """
    ids = [run["uuid"] for run in runs]
    records = [run["runner_id"] for run in runs if run["runner_id"]]
    of_runs: dict[str, Any] = {"workflow_id": {"$in": ids}}
    for name in ("steps", "events", "tasks", "attempts", "usage"):
        database[name].delete_many(of_runs)
    database.logs.delete_many({"runner_id": {"$in": [*ids, *records]}})
    database.counters.delete_many({"_id": {"$in": [counter_key(each) for each in (*ids, *records)]}})
    database.runners.delete_many({"uuid": {"$in": records}})
    return database.runs.delete_many({"uuid": {"$in": ids}}).deleted_count
