"""Run logs in MongoDB.

The entries of one runner (or run) have positions without gaps, counted in the transaction that appends them: whoever
follows a log by position misses none, however many append to it at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymongo import ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.database import Database

from afl.runtime.entities import LogDefinition
from afl.runtime.persistence.topics import logs_topic
from afl.runtime.stores.masking import masked_log
from afl.runtime.stores.mongo.collections import Collections
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.records import record_document, record_from

_COLUMNS = ("uuid", "runner_id", "order", "time")


class LogCollection(Collections):
    """The LogStore protocol."""

    def save_log(self, log: LogDefinition) -> None:
        self.save_logs([log])

    def save_logs(self, logs: Sequence[LogDefinition]) -> None:
        documents = [log_document(log) for log in logs]
        if documents:
            self.connection.transaction(lambda db, session: append_logs(db, session, documents))
            self._notify(logs_topic(log.runner_id) for log in logs)

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        order = [("order", 1), ("time", 1), ("uuid", 1)]
        found = self._all("logs", {"runner_id": runner_id}, sort=order)
        return [record_from(each, LogDefinition) for each in found]

    def get_logs_after(
        self, runner_id: str, position: int, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        if limit < 1:
            return []
        query = {"runner_id": runner_id, "seq": {"$gt": position}}
        found = self._all("logs", query, sort=[("seq", 1)], limit=limit)
        return [(each["seq"], record_from(each, LogDefinition)) for each in found]

    def get_logs_before(
        self, runner_id: str, position: int = 0, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        if limit < 1:
            return []
        query = {"runner_id": runner_id, **({"seq": {"$lt": position}} if position else {})}
        found = self._all("logs", query, sort=[("seq", -1)], limit=limit)
        return [(each["seq"], record_from(each, LogDefinition)) for each in found]


def log_document(log: LogDefinition) -> Document:
    """All fields of a log entry but its position."""
    return record_document(masked_log(log), "a log entry", _COLUMNS)


def counter_key(runner_id: str) -> str:
    """The id of the counter for the entries of a runner (or run)."""
    return f"logs:{runner_id}"


def append_logs(database: Database[Document], session: ClientSession, documents: list[Document]) -> None:
    """Append entries, each behind all that its runner has."""
    by_runner: dict[str, list[Document]] = {}
    for document in documents:
        by_runner.setdefault(document["runner_id"], []).append(document)
    for runner_id, entries in by_runner.items():
        counter = database.counters.find_one_and_update(
            {"_id": counter_key(runner_id)},
            {"$inc": {"seq": len(entries)}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        assert counter is not None  # an upsert leaves a document in any case
        for position, entry in enumerate(entries, counter["seq"] - len(entries) + 1):
            entry["seq"] = position
    if documents:
        database.logs.insert_many(documents, session=session)
