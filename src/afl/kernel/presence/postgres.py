"""Presence on PostgreSQL: a session of its own holds an advisory lock while its process lives.

The server releases the lock when the session ends. A session may also end without a death: the server
restarts, an administrator ends it, a network breaks. So a free lock is proof only when all of this holds:

- the lock was taken under the same run of the server (`afl_presence`), hence no restart released it;
- it was free at two looks at least a second apart, while its owner, if alive, takes it again at once;
- the looks fell into one session of our own, so we were not cut off ourselves meanwhile; after a cut we first
  wait as long as a lease, since what broke our session may have broken others.

Behind a connection pooler locks belong to no particular process, and everything is UNKNOWN.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from psycopg.pq import ConnStatus

from afl.kernel.database.base import Row
from afl.kernel.database.postgres_session import Connection, abandon
from afl.kernel.database.queries import Query, queries
from afl.kernel.database.schema import Schema
from afl.kernel.errors import StoreError, StoreUnavailable
from afl.kernel.ids import sortable_id
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.lease import RUN_LEASE_MS
from afl.kernel.presence.base import Life, Presence, Process

Q = queries("afl.kernel.presence", "sql")
SCHEMA = Schema("afl.kernel.presence", "sql", component="presence")
APART_SECONDS = 1.0
STALE_SECONDS = 10.0
RETRY_SECONDS = 0.2


def lock_key(owner: str) -> int:
    """The advisory lock of an id: the first 64 bits of its hash, as the server would compute them too."""
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8], "big", signed=True)


@dataclass(frozen=True, slots=True)
class Look:
    """A first look that found the lock free, and the session of ours it fell into."""

    at: float
    session: int


class SessionDatabase(Protocol):
    """What presence needs of a PostgreSQL database."""

    name: str
    pooled: bool

    def ensure(self, schema: Schema) -> None: ...

    def select(self, query: Query, /, **params: Any) -> list[Row]: ...

    def atomic(self, query: Query, /, *, durable: bool = True, **params: Any) -> list[Row]: ...

    def new_connection(self) -> Connection: ...


class SessionPresence(Presence):
    """The lock is held by a thread that does nothing but notice the loss of its session and make another."""

    def __init__(self, database: SessionDatabase, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._has_table = False
        self._reset()

    def _reset(self) -> None:
        self._guard = threading.Lock()
        self._id: str | None = None
        self._session: HeldSession | None = None
        self._looks: dict[str, Look] = {}

    @property
    def id(self) -> str:
        with self._guard:
            if self._id is None:
                name = sortable_id()
                if not self._database.pooled:
                    self._ensure_table()
                    self._database.atomic(Q.forget)
                    self._session = HeldSession(self._database, name, self._clock)
                self._id = name
            return self._id

    def proof(self, owner: str) -> Life:
        if owner == self.id:
            return Life.ALIVE
        session = self._session
        if session is None:
            return Life.UNKNOWN
        (row,) = self._database.select(Q.look, key=lock_key(owner), id=owner)
        if row["free"] and row["same_server"]:
            return self._second_look(owner, session)
        self._looks.pop(owner, None)
        return Life.UNKNOWN if row["free"] else Life.ALIVE

    def _second_look(self, owner: str, session: HeldSession) -> Life:
        now, number = self._clock(), session.number
        first = self._looks.get(owner)
        if not session.settled(now):
            self._looks.pop(owner, None)
        elif first is None or first.session != number or now - first.at > STALE_SECONDS:
            self._looks[owner] = Look(now, number)
        elif now - first.at >= APART_SECONDS:
            # Keep the look, so that who asks again at once gets the same answer.
            self._looks[owner] = Look(now - APART_SECONDS, number)
            return Life.DEAD
        return Life.UNKNOWN

    def process(self, owner: str) -> Process | None:
        if owner == self._id:
            return Process.this()
        if self._database.pooled:
            return None
        self._ensure_table()
        rows = self._database.select(Q.process, id=owner)
        return Process(rows[0]["host"], rows[0]["pid"]) if rows else None

    def _ensure_table(self) -> None:
        if not self._has_table:
            self._database.ensure(SCHEMA)
            self._has_table = True

    def close(self) -> None:
        with self._guard:
            if self._session is not None:
                self._session.close()
            self._id, self._session = None, None

    def forked(self) -> None:
        if self._session is not None:
            self._session.abandon()
        self._reset()


class HeldSession:
    """The session that holds our lock. `number` counts how often it was replaced."""

    def __init__(self, database: SessionDatabase, owner: str, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._owner = owner
        self.number = 0
        self._settled_at: float | None = None
        self._connection = self._open()
        self._settled_at = self._clock()
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = JoinableThread(self._watch, "afl-presence")
        self._thread.start()

    def settled(self, now: float) -> bool:
        """Whether the session is open, and has been for long enough to judge others by it."""
        settled_at = self._settled_at
        return settled_at is not None and now >= settled_at

    def close(self) -> None:
        os.write(self._wake_writer, b"x")
        self._thread.join()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def abandon(self) -> None:
        """In a forked child, which has neither the thread nor a right to the session."""
        abandon(self._connection)
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _open(self) -> Connection:
        connection = self._database.new_connection()
        try:
            me = {"id": self._owner, "host": socket.gethostname(), "pid": os.getpid()}
            if connection.execute(Q.take.postgres, me | {"key": lock_key(self._owner)}).fetchone() is None:
                raise StoreUnavailable(f"an older session of ours still holds the lock of {self._owner}")
        except psycopg.Error as error:
            connection.close()
            raise StoreUnavailable(
                f"lost {self._database.name} while taking the liveness lock: {error}"
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _watch(self) -> None:
        while not self._idle(self._connection.fileno(), None):
            if self._stands():
                continue
            self._settled_at = None
            self.number += 1
            self._connection.close()
            if not self._renew():
                return
        self._connection.close()

    def _stands(self) -> bool:
        try:
            self._connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return self._connection.pgconn.status == ConnStatus.OK

    def _renew(self) -> bool:
        """Try until there is a session again; False when this process closes its presence meanwhile."""
        while True:
            try:
                self._connection = self._open()
            except StoreError:  # the server is still away; calls that need it raise by themselves
                if self._idle(None, RETRY_SECONDS):
                    return False
            else:
                self._settled_at = self._clock() + RUN_LEASE_MS / 1000
                return True

    def _idle(self, descriptor: int | None, seconds: float | None) -> bool:
        """Wait for news on the session or for some time; True when asked to end."""
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(None if seconds is None else seconds * 1000)
        return any(found == self._wake_reader for found, _ in ready)
