"""Figures in MongoDB."""

from __future__ import annotations

from afl.runtime.entities import TaskState
from afl.runtime.persistence.pulses import TaskCount
from afl.runtime.stores.mongo.collections import Collections

_OPEN = {"state": {"$in": [TaskState.PENDING, TaskState.RUNNING]}}
_ALIKE = {"task_list": "$task_list_name", "name": "$name", "state": "$state", "hold": "$hold", "via": "$via"}


class CensusCollection(Collections):
    """The CensusStore protocol."""

    def count_tasks(self) -> list[TaskCount]:
        group = {"_id": _ALIKE, "count": {"$sum": 1}, "oldest": {"$min": "$created"}}
        found = self.connection.call(
            lambda database: list(database.tasks.aggregate([{"$match": _OPEN}, {"$group": group}]))
        )
        return [
            TaskCount(
                **{name: each["_id"].get(name, "") for name in _ALIKE},
                count=each["count"],
                oldest=each["oldest"],
            )
            for each in found
        ]

    def count_runs(self) -> dict[str, int]:
        group = {"_id": "$state", "count": {"$sum": 1}}
        found = self.connection.call(lambda database: list(database.runs.aggregate([{"$group": group}])))
        return {each["_id"]: each["count"] for each in found}
