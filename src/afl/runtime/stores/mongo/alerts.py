"""What people were alerted to, in MongoDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import ASCENDING, UpdateOne

from afl.kernel.clock import wall_ms
from afl.runtime.entities import RunnerState, TaskHold, TaskState
from afl.runtime.persistence.alerts import FailedRun, OpenQuestion
from afl.runtime.stores.mongo.connection import Connection

_PEOPLE = "human:"


class MongoAlerts:
    """The AlertStore protocol."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        unique = [("destination", ASCENDING), ("subject", ASCENDING)]
        connection.call(lambda db: db.alerts.create_index(unique, name="alert_subject_index", unique=True))
        connection.call(lambda db: db.alerts.create_index("sent", name="alert_sent_index"))

    def get_questions(self, limit: int) -> list[OpenQuestion]:
        query = {
            "hold": TaskHold.ELSEWHERE,
            "state": TaskState.PENDING,
            "via": {"$gte": _PEOPLE, "$lt": "human;"},
        }
        fields = {"uuid": 1, "via": 1}
        found = self._connection.call(
            lambda db: list(db.tasks.find(query, fields, sort=[("seq", ASCENDING)], limit=limit))
        )
        return [OpenQuestion(each["uuid"], each["via"].removeprefix(_PEOPLE)) for each in found]

    def get_failures(self, since: int, limit: int) -> list[FailedRun]:
        query = {"ended": {"$gte": max(since, 1)}, "state": RunnerState.FAILED}
        order = [("ended", ASCENDING), ("uuid", ASCENDING)]
        found = self._connection.call(
            lambda db: list(db.runs.find(query, {"uuid": 1, "ended": 1}, sort=order, limit=limit))
        )
        return [FailedRun(each["uuid"], each["ended"]) for each in found]

    def get_alerted(self, destination: str, subjects: Sequence[str]) -> set[str]:
        query = {"destination": destination, "subject": {"$in": list(subjects)}}
        found = self._connection.call(lambda db: list(db.alerts.find(query, {"subject": 1})))
        return {each["subject"] for each in found}

    def save_alerted(self, destination: str, subjects: Sequence[str]) -> None:
        sent = {"$setOnInsert": {"sent": wall_ms()}}
        writes = [
            UpdateOne({"destination": destination, "subject": each}, sent, upsert=True) for each in subjects
        ]
        if writes:
            self._connection.call(lambda db: db.alerts.bulk_write(writes))

    def forget_alerted(self, before: int, limit: int) -> int:
        def forget(db: Any) -> int:
            query = {"sent": {"$lt": before}, "subject": {"$gt": ""}}
            old = db.alerts.find(query, {"_id": 1}, sort=[("sent", ASCENDING)], limit=limit)
            ids = [each["_id"] for each in old]
            db.alerts.delete_many({"_id": {"$in": ids}})
            return len(ids)

        return self._connection.call(forget)
