"""The MongoDB store as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from afl.config import MongoDBConfig
from afl.kernel.file_lock import LockHolder
from afl.kernel.presence import Life
from afl.kernel.setting_kinds import mask_url
from afl.runtime.stores.mongo.claims import ClaimCollection
from afl.runtime.stores.mongo.collections import create_all
from afl.runtime.stores.mongo.commits import CommitCollection
from afl.runtime.stores.mongo.connection import Client, Connection
from afl.runtime.stores.mongo.control import ControlCollection
from afl.runtime.stores.mongo.errors import unreadable
from afl.runtime.stores.mongo.history import HistoryCollection
from afl.runtime.stores.mongo.inspection import CensusCollection, InspectionCollection, PulseCollection
from afl.runtime.stores.mongo.leases import LeaseCollection
from afl.runtime.stores.mongo.outcomes import OutcomeCollection
from afl.runtime.stores.mongo.runs import ChildRunCollection, RetentionCollection, RunCollection
from afl.runtime.stores.mongo.servers import FlowCollection, LockCollection, LogCollection, ServerCollection
from afl.runtime.stores.mongo.signals import SignalCollection
from afl.runtime.stores.mongo.steps import EventCollection, PublishedCollection, StepCollection
from afl.runtime.stores.mongo.tasks import (
    AttemptCollection,
    ElsewhereCollection,
    TaskCollection,
    TimerCollection,
)

_DEFAULT_ADDRESS = MongoDBConfig().url
_DEFAULT_DATABASE = "afl"
_UNREACHABLE_MS = 3000


class MongoStore(
    StepCollection,
    EventCollection,
    PublishedCollection,
    HistoryCollection,
    TaskCollection,
    AttemptCollection,
    ClaimCollection,
    LeaseCollection,
    OutcomeCollection,
    ElsewhereCollection,
    TimerCollection,
    SignalCollection,
    RunCollection,
    ChildRunCollection,
    ControlCollection,
    RetentionCollection,
    FlowCollection,
    ServerCollection,
    InspectionCollection,
    LockCollection,
    LogCollection,
    PulseCollection,
    CensusCollection,
    CommitCollection,
):
    """PersistenceAPI over a MongoDB replica set.

    A database named in the address counts, unless `database_name` says otherwise. A client that is passed in stays
    the caller's: the store does not close it, and after a fork the child needs a store of its own.
    """

    proves_death: ClassVar[bool] = False
    """A holder that died is replaced when its lease ends: MongoDB has no lock that a dead process loses."""

    def __init__(
        self,
        connection_string: str = "",
        database_name: str = _DEFAULT_DATABASE,
        create_indexes: bool = True,
        client: Client | None = None,
    ) -> None:
        address = connection_string or _DEFAULT_ADDRESS
        if client is None:
            name = _database_name(address, database_name)
            where = mask_url(address)
        else:
            name, where = database_name, f"the MongoDB database {database_name}"
        self.connection = Connection(_opener(address, client), client is None, name, where)
        if create_indexes:
            self._create_indexes()

    @classmethod
    def from_config(cls, config: MongoDBConfig, create_indexes: bool = True) -> MongoStore:
        """The store that a configuration describes."""
        return cls(config.connection_string(), config.database, create_indexes)

    def _create_indexes(self) -> None:
        try:
            self.connection.call(create_all)
        except BaseException:
            self.close()
            raise

    def describe(self, owner: str) -> str:
        """An owner in words: its process and host, where they are known."""
        return self.connection.describe(owner)

    def life(self, owner: str) -> Life:
        """Of others nothing is known here: their leases decide."""
        return Life.ALIVE if owner == self.owner_id else Life.UNKNOWN

    def write_lock(self) -> LockHolder | None:
        """Nobody: the server lets others write meanwhile."""
        return None

    def now(self) -> int:
        """The server's clock."""
        return self.connection.now()

    def close(self) -> None:
        """Release connections; held runs and tasks go to others when their lease ends."""
        self._close_notifier()
        self.connection.close()

    def drop_database(self) -> None:
        """Remove the database with everything in it."""
        self.connection.call(lambda database: database.client.drop_database(database.name))


def _opener(address: str, client: Client | None) -> Callable[[], Client]:
    def open_client() -> Client:
        if client is not None:
            return client
        given = address.lower()
        waits: dict[str, Any] = {
            name: _UNREACHABLE_MS
            for name in ("serverSelectionTimeoutMS", "connectTimeoutMS")
            if name.lower() not in given
        }
        return MongoClient(address, appname="agentflow", **waits)

    return open_client


def _database_name(address: str, given: str) -> str:
    try:
        # A service record is looked up by the client; here only the path matters.
        named = parse_uri(address.replace("mongodb+srv://", "mongodb://", 1), validate=False)["database"]
    except (PyMongoError, ValueError) as error:
        raise unreadable(mask_url(address)) from error
    # `/admin` is where a login is known, not where data is kept.
    return named if named and named != "admin" and given == _DEFAULT_DATABASE else given
