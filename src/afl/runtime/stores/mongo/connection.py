"""The way to a MongoDB database: reads, single writes and transactions, with every error in our words.

Reads see what a majority has, and writes are acknowledged by a majority, so nothing that was seen is rolled back by
a change of primary. Times that decide are the server's ($$NOW).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar
from weakref import WeakSet, WeakValueDictionary

import bson
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.int64 import Int64
from pymongo import MongoClient, ReadPreference, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    PyMongoError,
)
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from afl.kernel.backoff import Backoff
from afl.kernel.errors import (
    InputError,
    MissingExtraError,
    StoreConflict,
    StoreError,
    pip_install,
)
from afl.kernel.ids import sortable_id
from afl.kernel.notify import Notifier
from afl.kernel.notify.transport import Transport
from afl.kernel.presence import Process
from afl.kernel.setting_kinds import mask_url
from afl.runtime.stores.mongo.errors import (
    DRIVER_ERRORS,
    failure,
    is_transient,
    not_a_replica_set,
    unreadable,
)


def open_notifier_of(place: str, url: str) -> Notifier:
    """The notifier of a database, named by its place; `url` as in AFL_DOORBELL."""
    if url.startswith(("nats://", "tls://")):
        return Notifier(_nats_transport(url), lambda transport: transport.close())
    if url not in ("auto", "none"):
        raise InputError(
            f"doorbell {mask_url(url)!r}: expected auto, none or an address nats://... or tls://..."
        )
    with _guard:
        transport = _local_transports.get(place)
        if transport is None:
            transport = _local_transports[place] = Transport(f"local:{place}")
    return Notifier(transport, lambda _: None)  # it has neither thread nor connection: nothing to end


def _nats_transport(url: str) -> Transport:
    try:
        from afl.kernel.notify.nats import NatsTransport  # noqa: PLC0415  needs an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the notifier needs {error.name}, which is not installed; `{pip_install('nats')}`"
        ) from error
    return NatsTransport(url)


_guard = threading.Lock()
_local_transports: WeakValueDictionary[str, Transport] = WeakValueDictionary()


def _forked() -> None:
    global _guard
    _guard = threading.Lock()  # the copied one may be held by a thread that does not exist here


os.register_at_fork(after_in_child=_forked)


T = TypeVar("T")
Document = dict[str, Any]
Client = MongoClient[Document]
Work = Callable[[Database[Document]], T]

NOW: Document = {"$toLong": "$$NOW"}
_MAJORITY = WriteConcern("majority")
_SEEN = ReadConcern("majority")
_PATIENCE_SECONDS = 15.0
_BACKOFF = Backoff(0.002, cap=0.1)
_EPOCH = datetime.fromtimestamp(0, UTC)
_WIRE_VERSION = 13  # MongoDB 5.0


class _PlainInteger(TypeDecoder):
    """The driver's own kind of integer is not plain data; ours are."""

    bson_type = Int64

    def transform_bson(self, value: Int64) -> int:
        return int(value)


_OPTIONS: CodecOptions[Document] = CodecOptions(type_registry=TypeRegistry([_PlainInteger()]))


def find_one_and_update(
    collection: Collection[Document], query: Document, change: Document | list[Document], **options: Any
) -> Document | None:
    """The document after the change, as the driver's method of this name.

    That one gets no decoder of ours: with one it raises an AttributeError when a primary steps down before a majority
    has the change, where it should ask again.
    """
    undecoded: Collection[Document] = collection.with_options(CodecOptions())
    found = undecoded.find_one_and_update(query, change, return_document=ReturnDocument.AFTER, **options)
    return None if found is None else bson.decode(bson.encode(found), _OPTIONS)


@dataclass(frozen=True, slots=True)
class Ticket:
    """Places in the order of creation, and the server's time when they were taken."""

    first: int
    now: int


@dataclass(frozen=True, slots=True)
class _Process:
    """What one process has for itself."""

    client: Client
    owner: str


class Connection:
    """One database; safe for threads, and for a forked child, which gets connections and an id of its own."""

    def __init__(self, open_client: Callable[[], Client], owns_client: bool, name: str, where: str) -> None:
        self.name = name
        self.where = where
        self._open_client = open_client
        self._owns_client = owns_client
        self._guard = threading.Lock()
        self._random = Random()
        self._process: _Process | None = None
        self._inherited: list[_Process] = []
        _connections.add(self)
        try:
            self.call(self._check)
        except BaseException:
            self.close()
            raise

    # -- who we are -------------------------------------------------------------------------------------------

    @property
    def owner_id(self) -> str:
        """This process and store object, readable: host, process, and an id that is never used twice."""
        return self._here().owner

    def process(self, owner: str) -> Process | None:
        """The process of an owner, if it is one of ours."""
        host, _, rest = owner.partition("|")
        pid = rest.partition("|")[0]
        return Process(host, int(pid)) if pid.isdecimal() else None

    def describe(self, owner: str) -> str:
        """An owner in words."""
        process = self.process(owner)
        if process is None:
            return owner
        return f"process {process.pid} on {process.host}{' (this one)' if owner == self.owner_id else ''}"

    def _here(self) -> _Process:
        process = self._process
        if process is None:
            with self._guard:
                process = self._process = self._process or self._begin()
        return process

    def _begin(self) -> _Process:
        try:
            return _Process(self._open_client(), f"{socket.gethostname()}|{os.getpid()}|{sortable_id()}")
        except DRIVER_ERRORS as error:
            raise unreadable(self.where) from error

    def forked(self) -> None:
        """In a forked child, before anything else runs: begin anew without touching what the parent uses."""
        self._guard = threading.Lock()  # the copied one may be held by a thread that does not exist here
        if self._process is not None:
            self._inherited.append(self._process)  # collecting it would close sockets of the parent
        self._process = None

    def _check(self, database: Database[Document]) -> None:
        hello = database.client.admin.command("hello")
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            raise not_a_replica_set(self.where)
        if hello.get("maxWireVersion", 0) < _WIRE_VERSION:
            raise StoreError(f"{self.where} is older than MongoDB 5.0; use a newer server")

    def close(self) -> None:
        """Close the client if it is ours."""
        if self._owns_client and self._process is not None:
            self._process.client.close()

    def now(self) -> int:
        """The server's clock; milliseconds."""
        told: datetime = self.call(lambda database: database.command("hello"))["localTime"]
        return (told.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)

    # -- work -------------------------------------------------------------------------------------------------

    def _database(self) -> Database[Document]:
        return self._here().client.get_database(self.name, _OPTIONS, ReadPreference.PRIMARY, _MAJORITY, _SEEN)

    def call(self, work: Work[T]) -> T:
        """Reads, or one write that is atomic by itself. Cursors are read to their end inside."""
        try:
            return work(self._database())
        except DRIVER_ERRORS as error:
            raise failure(error, self.where) from error

    def upsert(self, work: Work[T]) -> T:
        """As `call`, for an upsert: when two insert the same key at once, the second one updates instead."""
        try:
            return self.call(work)
        except StoreConflict:
            return self.call(work)

    def transaction(self, work: Work[T]) -> T:
        """A transaction, tried again while others write to the same documents; any exception undoes it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for delay in _BACKOFF.delays(self._random):
            try:
                return self._attempt(work)
            except DRIVER_ERRORS as error:
                if not is_transient(error) or time.monotonic() > deadline:
                    raise failure(error, self.where) from error
            time.sleep(delay)
        raise AssertionError("the delays have no end")

    def _attempt(self, work: Work[T]) -> T:
        client = self._here().client
        # The transaction alone says what is read and acknowledged: its statements must not say it again.
        database = client.get_database(
            self.name, _OPTIONS, ReadPreference.PRIMARY, WriteConcern(), ReadConcern()
        )
        with client.start_session().bind() as session:  # its end undoes what is not committed
            session.start_transaction(ReadConcern("snapshot"), _MAJORITY)
            result = work(database)
            self._commit(session)
            return result

    def _commit(self, session: ClientSession) -> None:
        """Commit, asking again when the answer got lost: the server knows the transaction by its number."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for delay in _BACKOFF.delays(self._random):
            try:
                return session.commit_transaction()
            except PyMongoError as error:
                unknown = error.has_error_label("UnknownTransactionCommitResult")
                if not unknown or time.monotonic() > deadline:
                    raise
            time.sleep(delay)

    def upserted(
        self, collection: str, key: Document, change: list[Document], concern: WriteConcern = _MAJORITY
    ) -> Document:
        """The document of a key after a change; it is made if there is none."""

        def change_or_make(database: Database[Document]) -> Document | None:
            written = database.get_collection(collection, write_concern=concern)
            return find_one_and_update(written, key, change, upsert=True)

        found = self.upsert(change_or_make)
        assert found is not None  # an upsert leaves a document in any case
        return found

    def ticket(self, places: int) -> Ticket:
        """Take places in the order of creation.

        Outside any transaction, where it would make all of them wait for each other. One lost with a primary that
        did not replicate it costs order, never work, so nobody waits for a majority.
        """
        count = {"$add": [{"$ifNull": ["$seq", 0]}, places]}
        change: list[Document] = [{"$set": {"seq": count, "clock": NOW}}]
        taken = self.upserted("counters", {"_id": "creation"}, change, WriteConcern(1))
        return Ticket(taken["seq"] - places + 1, taken["clock"])


_connections: WeakSet[Connection] = WeakSet()


def _after_fork() -> None:
    for connection in list(_connections):
        connection.forked()


os.register_at_fork(after_in_child=_after_fork)
