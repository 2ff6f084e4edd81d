"""As `lives`, on MongoDB: a life dies at a chosen write, and its leases end since nothing proves its death."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.results import UpdateResult

from afl.runtime.entities import TaskState
from afl.runtime.mongo_store import MongoStore
from afl.runtime.stores.mongo.connection import Client, Connection, Document, Work
from support.lives import Death, Lifespan

T = TypeVar("T")
_WRITES = frozenset(
    {
        "bulk_write",
        "delete_many",
        "delete_one",
        "find_one_and_update",
        "insert_many",
        "insert_one",
        "replace_one",
        "update_many",
        "update_one",
    }
)
_COUNTERS = "counters"  # a number that is taken and not used changes nothing: no write to die at


class MortalConnection(Connection):
    """A connection of one life: transactions, and single writes outside them, are what it may die at."""

    def __init__(self, client: Client, name: str, death: Death | None) -> None:
        self._life = Lifespan(death)
        super().__init__(lambda: client, False, name, name)

    def call(self, work: Work[T]) -> T:
        self._life.go_on()
        return super().call(lambda database: work(cast(Database[Document], _Writes(database, self._life))))

    def transaction(self, work: Work[T]) -> T:
        return self._life.write(lambda: super(MortalConnection, self).transaction(work))


class _Writes:
    """A database whose single writes are those of a life."""

    def __init__(self, database: Database[Document], life: Lifespan) -> None:
        self._database = database
        self._life = life

    def __getattr__(self, name: str) -> Any:
        return self._watched(getattr(self._database, name))

    def __getitem__(self, name: str) -> Any:
        return self._watched(self._database[name])

    def get_collection(self, name: str, **options: Any) -> Any:
        return self._watched(self._database.get_collection(name, **options))

    def _watched(self, found: Any) -> Any:
        is_ours = isinstance(found, Collection) and found.name != _COUNTERS
        return _WatchedCollection(found, self._life) if is_ours else found


class _WatchedCollection:
    def __init__(self, collection: Collection[Document], life: Lifespan) -> None:
        self._collection = collection
        self._life = life

    def __getattr__(self, name: str) -> Any:
        found: Callable[..., Any] = getattr(self._collection, name)
        if name not in _WRITES:
            return found
        return lambda *args, **options: self._life.write(lambda: found(*args, **options), _wrote)


def _wrote(result: Any) -> bool:
    if isinstance(result, UpdateResult):
        return result.matched_count > 0 or result.upserted_id is not None
    return result is not None  # a document that was to be changed, and was not found


def end_leases(database: Database[Document]) -> None:
    """Time passes: whatever dead processes held has run out."""
    database.runs.update_many({"owner": {"$gt": ""}}, {"$set": {"lease_until": 1}})
    database.tasks.update_many({"state": TaskState.RUNNING}, {"$set": {"lease_until": 1}})


class MongoLife(MongoStore):
    """The MongoDB store of one life, over a client that others use too and a database that has its indexes."""

    def __init__(self, client: Client, name: str, death: Death | None) -> None:
        self.connection = MortalConnection(client, name, death)


class MongoLives:
    """One database through many lives."""

    def __init__(self, url: str) -> None:
        MongoStore(url).close()  # makes the indexes
        self._client: Client = MongoClient(url)
        self._name = self._client.get_default_database().name

    def next(self, death: Death | None = None) -> MongoStore:
        """The store as the next life opens it."""
        end_leases(self._client[self._name])
        return MongoLife(self._client, self._name, death)

    def end(self) -> None:
        self._client.close()
