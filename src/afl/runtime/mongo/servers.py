"""Servers, named locks and run logs in MongoDB."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from afl.kernel.ids import random_id
from afl.runtime.entities import LockDefinition, LockMetaData, LogDefinition, ServerDefinition
from afl.runtime.mongo.collections import Collections, lease, literal
from afl.runtime.mongo.connection import NOW, Document
from afl.runtime.mongo.records import record_document, record_from

_OLDEST_START = [("start_time", 1), ("uuid", 1)]
_SERVER_COLUMNS = ("uuid", "state", "start_time", "ping_time")
_LOG_COLUMNS = ("uuid", "runner_id", "order", "time")


class ServerCollection(Collections):
    """The ServerStore protocol."""

    def get_server(self, uuid: str) -> ServerDefinition | None:
        found = self._one("servers", {"uuid": uuid})
        return record_from(found, ServerDefinition) if found else None

    def save_server(self, server: ServerDefinition) -> None:
        self._save("servers", record_document(server, f"server {server.uuid}", _SERVER_COLUMNS))

    def update_server_ping(self, uuid: str, ping_time: int) -> bool:
        return self._update("servers", {"uuid": uuid}, {"$set": {"ping_time": ping_time}})

    def get_all_servers(self) -> list[ServerDefinition]:
        return self._servers({})

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return self._servers({"state": state})

    def _servers(self, query: dict[str, Any]) -> list[ServerDefinition]:
        return [
            record_from(each, ServerDefinition) for each in self._all("servers", query, sort=_OLDEST_START)
        ]


class LockCollection(Collections):
    """The LockStore protocol. A lock's document stays; whether it is held says its expiry."""

    def acquire_lock(
        self, key: str, duration_ms: int, meta: LockMetaData | None = None, *, owner: str = ""
    ) -> bool:
        token = random_id()
        fields = literal({"owner": owner, "meta": None if meta is None else asdict(meta), "claim": token})
        change = _if_free(owner, {**fields, "acquired_at": NOW, "expires_at": lease(duration_ms)})
        return bool(self.connection.upserted("locks", {"key": key}, change)["claim"] == token)

    def release_lock(self, key: str, *, owner: str = "") -> bool:
        query = _held(key, owner)
        return self.connection.call(lambda db: db.locks.delete_one(query).deleted_count == 1)

    def check_lock(self, key: str) -> LockDefinition | None:
        found = self._one("locks", _held(key, ""))
        if found is None:
            return None
        meta = None if found["meta"] is None else LockMetaData(**found["meta"])
        return LockDefinition(key, found["acquired_at"], found["expires_at"], meta, found.get("owner", ""))

    def extend_lock(self, key: str, duration_ms: int, *, owner: str = "") -> bool:
        return self._update("locks", _held(key, owner), [{"$set": {"expires_at": lease(duration_ms)}}])


def _held(key: str, owner: str) -> Document:
    held: Document = {"key": key, "$expr": {"$gt": ["$expires_at", NOW]}}
    return {**held, "owner": owner} if owner else held


def _if_free(owner: str, fields: Document) -> list[Document]:
    """The change of a lock that is free, expired or the owner's own; any other stays as it is.

    An upsert may not look at the clock in its query, so the decision is part of the change.
    """
    expired = {"$lte": [{"$ifNull": ["$expires_at", 0]}, NOW]}
    free = {"$or": [expired, {"$eq": ["$owner", {"$literal": owner}]}]} if owner else expired
    chosen = {name: {"$cond": ["$free", value, f"${name}"]} for name, value in fields.items()}
    return [{"$set": {"free": free}}, {"$set": chosen}, {"$unset": "free"}]


class LogCollection(Collections):
    """The LogStore protocol."""

    def save_log(self, log: LogDefinition) -> None:
        document = log_document(log)
        self.connection.call(lambda db: db.logs.insert_one(document))

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        order = [("order", 1), ("time", 1), ("uuid", 1)]
        found = self._all("logs", {"runner_id": runner_id}, sort=order)
        return [record_from(each, LogDefinition) for each in found]


def log_document(log: LogDefinition) -> Document:
    """All fields of a log entry."""
    return record_document(log, "a log entry", _LOG_COLUMNS)
