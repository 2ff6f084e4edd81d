"""Attempts in MongoDB."""

from __future__ import annotations

from dataclasses import asdict, fields

from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.database import Database

from afl.runtime.entities import KEPT_ATTEMPTS, AttemptDefinition, failure_logs, in_order
from afl.runtime.stores.mongo.collections import Collections
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.logs import append_logs, log_document

_FIELDS = [field.name for field in fields(AttemptDefinition)]


class AttemptCollection(Collections):
    """The AttemptStore protocol."""

    def get_failed_attempts(
        self, workflow_id: str, task_id: str = "", limit: int = 1000
    ) -> list[AttemptDefinition]:
        query = {"workflow_id": workflow_id, **({"task_id": task_id} if task_id else {})}
        found = self._all("attempts", query, sort=[("task_id", 1), ("number", 1)], limit=limit)
        return in_order(AttemptDefinition(**{name: each[name] for name in _FIELDS}) for each in found)


def write_attempts(
    database: Database[Document], session: ClientSession, attempts: list[AttemptDefinition]
) -> None:
    """Store attempts that ended, and what the logs of their runs say of them; of many keep the first and the newest."""
    if not attempts:
        return
    database.attempts.bulk_write([_insertion(each) for each in attempts], session=session)
    for each in attempts:
        if each.number > KEPT_ATTEMPTS + 1:
            old = {"$gt": 1, "$lte": each.number - KEPT_ATTEMPTS}
            database.attempts.delete_many({"task_id": each.task_id, "number": old}, session=session)
    append_logs(database, session, [log_document(log) for log in failure_logs(attempts)])


def _insertion(attempt: AttemptDefinition) -> UpdateOne:
    key = {"task_id": attempt.task_id, "number": attempt.number}
    return UpdateOne(key, {"$setOnInsert": asdict(attempt)}, upsert=True)
