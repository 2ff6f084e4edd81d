"""Named locks in MongoDB. The lock of a work item, `runner:task:<uuid>`, is part of the claim of that task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pymongo.database import Database

from afl.kernel.ids import random_id
from afl.runtime.entities import LockDefinition, LockMetaData, TaskState
from afl.runtime.stores.mongo.collections import Collections, lease, literal
from afl.runtime.stores.mongo.connection import NOW, Document

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
