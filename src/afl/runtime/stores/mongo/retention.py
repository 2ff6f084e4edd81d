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
        return self._delete("tasks", old, limit, order="updated", chosen=old)

    def delete_logs(self, written_before: int, limit: int) -> int:
        return self._delete(
            "logs", {"runner_id": ""}, limit, order="seq", chosen={"time": {"$lt": written_before}}
        )

    def count_old_tasks(self, ended_before: int) -> int:
        return self.connection.call(lambda database: database.tasks.count_documents(_loose(ended_before)))

    def _delete(self, name: str, query: Document, limit: int, *, order: str, chosen: Document) -> int:
        """Remove those of the first so many that are `chosen`, when it comes to it."""
        if limit < 1:
            return 0
        found = self._all(name, query, projection={"_id": 1}, sort=[(order, 1)], limit=limit)
        these: Document = {"_id": {"$in": [each["_id"] for each in found]}, **chosen}
        if not found:
            return 0
        return self.connection.call(lambda database: database[name].delete_many(these).deleted_count)


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
    for name in ("steps", "events", "tasks", "usage"):
        database[name].delete_many(of_runs)
    database.logs.delete_many({"runner_id": {"$in": [*ids, *records]}})
    database.counters.delete_many({"_id": {"$in": [counter_key(each) for each in (*ids, *records)]}})
    database.runners.delete_many({"uuid": {"$in": records}})
    return database.runs.delete_many({"uuid": {"$in": ids}}).deleted_count
