"""A small pool: the connection that was given back last goes out first, and a dead one never does."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from afl.kernel.database.postgres_line import Line
from afl.kernel.database.postgres_pipeline import Pipeline
from afl.kernel.database.postgres_prepared import Prepared


class Connection(psycopg.Connection[dict[str, Any]]):
    """Has other ways to execute statements than the driver's cursors, which take longer than small statements do."""

    single: Prepared  # for one statement at a time
    together: Pipeline  # for several at once
    _poll: select.poll | None = None

    def furnish(self, *, prepares: bool) -> None:
        """Make the other ways; `prepares` says whether statements may be prepared here."""
        line = Line(self)
        self.single = Prepared(self, line, prepares=prepares)
        self.together = Pipeline(line, prepares=prepares)
        self.prepare_threshold = (
            None  # the driver drops all that is prepared, ours too, once it prepares itself
        )

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
        """Take a connection back. One in the middle of anything is closed, and the server then undoes it."""
        pgconn = connection.pgconn
        is_idle = (
            pgconn.transaction_status == TransactionStatus.IDLE
            and pgconn.pipeline_status == PipelineStatus.OFF
        )
        if self._closed or not is_idle:
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
