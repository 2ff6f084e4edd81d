"""Flows, programs, servers, locks and logs in MongoDB."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pymongo.database import Database

from afl.kernel.ids import random_id
from afl.runtime.entities import (
    FlowDefinition,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    ServerDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.persistence.topics import logs_topic
from afl.runtime.stores.masking import masked_log
from afl.runtime.stores.mongo.collections import (
    NEWEST_FIRST,
    OLDEST_FIRST,
    Collections,
    beginning,
    lease,
    literal,
)
from afl.runtime.stores.mongo.connection import NOW, Document, find_one_and_update
from afl.runtime.stores.mongo.records import record_document, record_from

_LARGE_PROGRAM = 1024 * 1024


class FlowCollection(Collections):
    """The FlowStore protocol."""

    def save_program(self, program_hash: str, compiled: str) -> None:
        # A document holds 16 MiB; a program of that size shrinks to a twentieth.
        fields: Document = {"compiled": compiled}
        if len(compiled) > _LARGE_PROGRAM:
            fields = {"compressed": zlib.compress(compiled.encode())}

        def save(database: Database[Document]) -> None:
            database.programs.update_one({"hash": program_hash}, {"$setOnInsert": fields}, upsert=True)

        self.connection.upsert(save)

    def get_program(self, program_hash: str) -> str | None:
        found = self._one("programs", {"hash": program_hash})
        if found is None:
            return None
        if "compressed" in found:
            return zlib.decompress(found["compressed"]).decode()
        return str(found["compiled"])

    def get_flow(self, uuid: str) -> FlowDefinition | None:
        return self._flow({"uuid": uuid})

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        return self._flow({"name.path": path})

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        return self._flow({"name.name": name})

    def get_all_flows(self) -> list[FlowDefinition]:
        return [record_from(each, FlowDefinition) for each in self._all("flows", {}, sort=OLDEST_FIRST)]

    def find_flows(self, *, prefix: str = "", before: str = "", limit: int = 100) -> list[FlowDefinition]:
        query: Document = {"uuid": beginning(prefix)} if prefix else {}
        if before:
            start = self._one("flows", {"uuid": before}, projection={"seq": 1})
            if start is None:
                return []
            query["seq"] = {"$lt": start["seq"]}
        found = self._all("flows", query, sort=NEWEST_FIRST, limit=limit) if limit > 0 else []
        return [record_from(each, FlowDefinition) for each in found]

    def count_runs_of_flows(self, uuids: Sequence[str]) -> dict[str, int]:
        stages: list[Document] = [
            {"$match": {"flow_id": {"$in": list(uuids), "$gt": ""}}},
            {"$group": {"_id": "$flow_id", "found": {"$sum": 1}}},
        ]
        counted = self.connection.call(lambda db: list(db.runs.aggregate(stages)))
        return {each["_id"]: int(each["found"]) for each in counted}

    def save_flow(self, flow: FlowDefinition) -> None:
        self._save_in_order("flows", record_document(flow, f"flow {flow.uuid}", ("uuid", "name")))

    def delete_flow(self, uuid: str) -> bool:
        return self.connection.call(lambda db: db.flows.delete_one({"uuid": uuid}).deleted_count == 1)

    def get_workflow(self, uuid: str) -> WorkflowDefinition | None:
        found = self._one("workflows", {"uuid": uuid})
        return record_from(found, WorkflowDefinition) if found else None

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        found = self._one("workflows", {"name": name}, sort=[("date", -1), ("uuid", 1)])
        return record_from(found, WorkflowDefinition) if found else None

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        found = self._all("workflows", {"flow_id": flow_id}, sort=[("date", 1), ("uuid", 1)])
        return [record_from(each, WorkflowDefinition) for each in found]

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        columns = ("uuid", "name", "flow_id", "date")
        self._save("workflows", record_document(workflow, f"workflow {workflow.uuid}", columns))

    def _flow(self, query: dict[str, Any]) -> FlowDefinition | None:
        found = self._one("flows", query, sort=NEWEST_FIRST)
        return record_from(found, FlowDefinition) if found else None


_OLDEST_START = [("start_time", 1), ("uuid", 1)]
_SERVER_COLUMNS = ("uuid", "state", "start_time", "ping_time")


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


_WORK_ITEM = "runner:task:"


class LockCollection(Collections):
    """The LockStore protocol. A lock's document stays; whether it is held says its expiry."""

    def acquire_lock(
        self, key: str, duration_ms: int, meta: LockMetaData | None = None, *, owner: str = ""
    ) -> bool:
        claimed = self._claimed(key)
        if claimed is not None:
            return bool(owner) and self._set_work_item(key, owner, lease(duration_ms))
        token = random_id()
        fields = literal({"owner": owner, "meta": None if meta is None else asdict(meta), "claim": token})
        change = _if_free(owner, {**fields, "acquired_at": NOW, "expires_at": lease(duration_ms)})
        return bool(self.connection.upserted("locks", {"key": key}, change)["claim"] == token)

    def release_lock(self, key: str, *, owner: str = "") -> bool:
        if self._claimed(key) is not None:
            return self._set_work_item(key, owner, 0)
        query = _held(key, owner)
        return self.connection.call(lambda db: db.locks.delete_one(query).deleted_count == 1)

    def check_lock(self, key: str) -> LockDefinition | None:
        claimed = self._claimed(key)
        if claimed is not None:
            name = claimed["name"]
            meta = LockMetaData(topic=name, handler=name, step_name=name, step_id=claimed.get("step_id"))
            since = claimed["locked_at" if "locked_at" in claimed else "updated"]
            return LockDefinition(key, since, claimed["lock_until"], meta, claimed["owner"])
        found = self._one("locks", _held(key, ""))
        if found is None:
            return None
        given = None if found["meta"] is None else LockMetaData(**found["meta"])
        return LockDefinition(key, found["acquired_at"], found["expires_at"], given, found.get("owner", ""))

    def extend_lock(self, key: str, duration_ms: int, *, owner: str = "") -> bool:
        if self._claimed(key) is not None:
            return self._set_work_item(key, owner, lease(duration_ms))
        return self._update("locks", _held(key, owner), [{"$set": {"expires_at": lease(duration_ms)}}])

    def _claimed(self, key: str) -> Document | None:
        """The running task whose lock this is, while it has one."""
        return self._one("tasks", _work_item(key)) if key.startswith(_WORK_ITEM) else None

    def _set_work_item(self, key: str, owner: str, until: Document | int) -> bool:
        query = {**_work_item(key), **({"owner": owner} if owner else {})}
        return self._update("tasks", query, [{"$set": {"lock_until": until}}])


def locked_by_others(database: Database[Document], uuids: Sequence[str], owner: str) -> set[str]:
    """Those of the tasks whose lock somebody took without a claim."""
    keys = [_WORK_ITEM + uuid for uuid in uuids]
    query = {"key": {"$in": keys}, "owner": {"$ne": owner}, "$expr": {"$gt": ["$expires_at", NOW]}}
    if not keys:
        return set()
    return {each["key"].removeprefix(_WORK_ITEM) for each in database.locks.find(query, {"key": 1})}


def _work_item(key: str) -> Document:
    uuid = key.removeprefix(_WORK_ITEM)
    return {"uuid": uuid, "state": TaskState.RUNNING, "$expr": {"$gt": ["$lock_until", NOW]}}


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


_COLUMNS = ("uuid", "runner_id", "order", "time")


class LogCollection(Collections):
    """The LogStore protocol."""

    def save_logs(self, logs: Sequence[LogDefinition]) -> None:
        documents = [log_document(log) for log in logs]
        if documents:
            self.connection.transaction(lambda db: append_logs(db, documents))
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


def append_logs(database: Database[Document], documents: list[Document]) -> None:
    """Append entries, each behind all that its runner has."""
    by_runner: dict[str, list[Document]] = {}
    for document in documents:
        by_runner.setdefault(document["runner_id"], []).append(document)
    for runner_id, entries in by_runner.items():
        key, change = {"_id": counter_key(runner_id)}, {"$inc": {"seq": len(entries)}}
        counter = find_one_and_update(database.counters, key, change, upsert=True)
        assert counter is not None  # an upsert leaves a document in any case
        for position, entry in enumerate(entries, counter["seq"] - len(entries) + 1):
            entry["seq"] = position
    if documents:
        database.logs.insert_many(documents)
