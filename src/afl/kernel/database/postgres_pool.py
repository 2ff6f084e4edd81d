"""A small pool: the connection that was given back last goes out first, and a dead one never does."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

Connection = psycopg.Connection[dict[str, Any]]
Cursor = psycopg.Cursor[dict[str, Any]]


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
                if is_fresh(connection):
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


def is_fresh(connection: Connection) -> bool:
    """Whether an idle connection still has a server, which says nothing unasked but that it goes away."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


_inherited: list[Connection] = []


def abandon(connection: Connection) -> None:
    """In a forked child: let go of the parent's socket without saying goodbye to the server in its name.

    Were the socket kept, the server would not notice the parent's death while the child lives.
    """
    if not connection.closed:
        os.close(connection.fileno())
    _inherited.append(connection)
