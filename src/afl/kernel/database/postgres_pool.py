"""A small pool: the connection that was given back last goes out first, and a dead one never does."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from afl.kernel.database.postgres_pipeline import Pipeline

Cursor = psycopg.Cursor[dict[str, Any]]

_MOST_CURSORS = 100


class Connection(psycopg.Connection[dict[str, Any]]):
    """Has a cursor for each statement that gives one row at most, as most writes do.

    A cursor learns how to write and read the types it meets. To learn that anew every time takes a good part of what a
    small statement takes.
    """

    _poll: select.poll | None = None

    @cached_property
    def _cursors(self) -> dict[str, Cursor]:
        return {}

    @cached_property
    def together(self) -> Pipeline:
        """For several statements at once."""
        return Pipeline(self)

    def statement(self, query: str, params: Mapping[str, Any] | None = None) -> Cursor:
        """Execute; the result is good until the same statement is executed again."""
        cursor = self._cursors.pop(query, None) or self.cursor()
        cursor.execute(query, params)
        if cursor.rowcount <= 1 and len(self._cursors) < _MOST_CURSORS:  # it keeps its rows while it is kept
            self._cursors[query] = cursor
        return cursor

    @property
    def is_fresh(self) -> bool:
        """Whether an idle connection still has a server, which says nothing unasked but that it goes away."""
        if self.closed:
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.fileno(), select.POLLIN)
        return not self._poll.poll(0)


class Pool:
    """At most `size` connections are out at a time; whoever comes later waits."""

    def __init__(self, connect: Callable[[], Connection], size: int) -> None:
        self._connect = connect
        self._size = size
        self._idle: list[Connection] = []
        self._slots = threading.Semaphore(size)
        self._closed = False

    def take(self) -> Connection:
        self._slots.acquire()
        try:
            while self._idle:
                try:
                    connection = self._idle.pop()
                except IndexError:  # another thread was quicker
                    break
                if connection.is_fresh:
                    return connection
                connection.close()
            return self._connect()
        except BaseException:
            self._slots.release()
            raise

    def give(self, connection: Connection) -> None:
        """Take a connection back. One with an open transaction is closed, and the server then undoes it."""
        if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.close()
        else:
            self._idle.append(connection)
        self._slots.release()

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def forked(self) -> None:
        inherited, self._idle = self._idle, []
        self._slots = threading.Semaphore(self._size)
        for connection in inherited:
            abandon(connection)


_inherited: list[Connection] = []


def abandon(connection: Connection) -> None:
    """In a forked child: let go of the parent's socket without saying goodbye to the server in its name.

    Were the socket kept, the server would not notice the parent's death while the child lives.
    """
    if not connection.closed:
        os.close(connection.fileno())
    _inherited.append(connection)
