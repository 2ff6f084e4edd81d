"""The histories of runs in MongoDB."""

from __future__ import annotations

from pymongo.database import Database

from afl.runtime.persistence.history import (
    KEPT_COMMITS,
    TRIM_EVERY,
    HistoryEvent,
    history_from,
)
from afl.runtime.stores.mongo.collections import Collections
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.types import WorkflowId


class HistoryCollection(Collections):
    """The HistoryStore protocol."""

    def get_history(
        self, workflow_id: WorkflowId, after: int = 0, limit: int = 1000
    ) -> list[tuple[int, list[HistoryEvent]]]:
        behind = {"workflow_id": workflow_id, "number": {"$gt": after}}
        found = self._all("history", behind, sort=[("number", 1)], limit=limit) if limit > 0 else []
        return [(each["number"], history_from(each["events"])) for each in found]


def append_history(database: Database[Document], workflow_id: str, events: str) -> None:
    """Append what happened, in a transaction that has written the run's document, and so is alone with it."""
    of_run = {"workflow_id": workflow_id}
    last = database.history.find_one(of_run, {"number": 1}, sort=[("number", -1)])
    number = 1 if last is None else last["number"] + 1
    database.history.insert_one({**of_run, "number": number, "events": events})
    if number % TRIM_EVERY == 0:
        old = {**of_run, "number": {"$lte": number - KEPT_COMMITS}}
        database.history.delete_many(old)
