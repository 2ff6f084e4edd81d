"""What all the collections of the store share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from afl.kernel.lease import LEASE_MS, MAX_DELIVERIES, RUN_LEASE_MS
from afl.kernel.notify import Notifier, Subscription
from afl.runtime.stores.mongo.connection import NOW, Connection, Document
from afl.runtime.stores.mongo.notifier import open_notifier_of

OLDEST_FIRST = [("seq", 1), ("uuid", 1)]
NEWEST_FIRST = [("seq", -1), ("uuid", -1)]


class Collections:
    """A group of collections in a database."""

    connection: Connection
    lease_ms: int = LEASE_MS
    max_deliveries: int = MAX_DELIVERIES
    doorbell: str = "auto"
    capabilities: ClassVar[frozenset[str]] = frozenset({"retention"})

    @property
    def run_lease_ms(self) -> int:
        """How long an evaluator keeps a run without renewing it."""
        return min(self.lease_ms, RUN_LEASE_MS)

    @property
    def owner_id(self) -> str:
        """The name under which this process holds runs and tasks."""
        return self.connection.owner_id

    @cached_property
    def notifier(self) -> Notifier:
        """The notifier; it has no thread before somebody listens."""
        return self._new_notifier()

    def _new_notifier(self) -> Notifier:
        return open_notifier_of(f"{self.connection.where} {self.connection.name}", self.doorbell)

    def subscribe(self, topics: Iterable[str], early: Iterable[str] = ()) -> Subscription:
        """A subscription for what is committed from now on."""
        return self.notifier.subscribe(topics, early)

    def _notify(self, topics: Iterable[str]) -> None:
        """After a write. There is nothing in it that could carry a notification."""
        named = set(topics)
        if named:
            self.notifier.after_commit(named)

    def _one(self, collection: str, query: Mapping[str, Any], **options: Any) -> Document | None:
        return self.connection.call(lambda db: db[collection].find_one(query, **options))

    def _all(self, collection: str, query: Mapping[str, Any], **options: Any) -> list[Document]:
        return self.connection.call(lambda db: list(db[collection].find(query, **options)))

    def _save(self, collection: str, document: Document) -> None:
        """Insert or replace by uuid."""
        key = {"uuid": document["uuid"]}
        self.connection.upsert(lambda db: db[collection].replace_one(key, document, upsert=True))

    def _save_in_order(self, collection: str, document: Document) -> None:
        """As `_save`; what is new comes after all that there is, what is replaced keeps its place."""
        key, change = {"uuid": document["uuid"]}, replacement(document, self.connection.ticket(1).first)
        self.connection.upsert(lambda db: db[collection].update_one(key, change, upsert=True))

    def _update(self, collection: str, query: Mapping[str, Any], change: Any) -> bool:
        """Change the one document that fits; False if none does."""
        return self.connection.call(lambda db: db[collection].update_one(query, change).matched_count == 1)


def replacement(document: Document, seq: int) -> list[Document]:
    """The update that replaces a document, or inserts it at a place in the order of creation.

    Whether its run is paused is no field of a task: that stays too.
    """
    kept = {"_id": "$_id", "seq": {"$ifNull": ["$seq", seq]}, "paused": "$paused"}
    return [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, kept]}}]


def literal(document: Document) -> Document:
    """Fields for an update that also computes: values are data, whatever they look like."""
    return {name: {"$literal": value} for name, value in document.items()}


def lease(lease_ms: int) -> Document:
    """The end of a lease that begins now, by the server's clock."""
    return {"$add": [NOW, lease_ms]}


def longer(name: str, lease_ms: int) -> Document:
    """A lease that is renewed: it never gets shorter by that, and none stays none."""
    return {"$cond": [{"$gt": [f"${name}", 0]}, {"$max": [f"${name}", lease(lease_ms)]}, 0]}


def lease_ended() -> Document:
    """The condition that a lease was given and is over; its last millisecond still belongs to the holder."""
    return past("lease_until")


def past(name: str) -> Document:
    """The condition that a time is over by the server's clock."""
    return {"$expr": {"$lt": [f"${name}", NOW]}}


def counted(name: str, more: int = 1) -> Document:
    """A counter that goes up; agents of other languages may have left it out."""
    return {"$add": [{"$ifNull": [f"${name}", 0]}, more]}


def beginning(prefix: str) -> Document:
    """The condition that an id begins so."""
    return {"$regex": f"^{re.escape(prefix)}"}
