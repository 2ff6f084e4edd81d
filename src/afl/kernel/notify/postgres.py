"""The transport of a PostgreSQL database.

LISTEN on a connection of its own, NOTIFY inside the writing transaction.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import time

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from afl.kernel.backoff import Backoff
from afl.kernel.database import Transaction, queries
from afl.kernel.notify.transport import ServerTransport
from afl.kernel.setting_kinds import mask_url

_log = logging.getLogger(__name__)
_RETRY = Backoff(0.05, cap=5.0)
_SETTLED_SECONDS = 5.0
_OFTEN = 10
_BUSY_SECONDS = 0.025  # so at most 40 commits a second of a process wait for those of others
_SEND_SECONDS = 0.005  # how long after the last ones, if not later, the next are sent
_SEPARATOR = "\t"  # is in no topic
_Q = queries("afl.kernel.notify", "sql")
# A server that does not answer is noticed within half a minute, also while something is sent to it.
_DEFAULTS = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class PostgresTransport(ServerTransport):
    """One channel for all topics; the payload says which, and which process sent it.

    A commit notifies by itself, which is the soonest: a client in another process has the result of a run in four
    fifths of the time. But commits with a NOTIFY wait for one another, each for the disk, while those without share one
    write: eight runs at a time are twice as fast by that. So a process that listens notifies after a commit that
    follows another within `_BUSY_SECONDS`: on the connection that it listens on, many at a time, and every
    `_SEND_SECONDS` at most: a run whose steps follow one another is a fifth faster by that. One that does not listen,
    such as a short command, has no such connection until it has committed `_OFTEN` times.
    """

    def __init__(self, url: str) -> None:
        super().__init__(mask_url(url))
        self._url = url
        self._wake_reader, self._wake_writer = _socket_pair()
        self._connection: psycopg.Connection | None = None
        self._by_commit = 0
        self._last_commit = -_BUSY_SECONDS
        self._sender = _new_sender()

    def sent_by_commit(self) -> bool:
        now = time.monotonic()
        is_busy, self._last_commit = now - self._last_commit < _BUSY_SECONDS, now
        if self._connected.is_set():
            return not is_busy
        self._by_commit += 1
        if self._by_commit == _OFTEN:
            self._begin()
        return True

    def payload(self, topic: str) -> str:
        return f"{topic}{_SEPARATOR}{self._sender}"

    def send_in(self, tx: Transaction, payload: str) -> None:
        tx.queue(_Q.notify, payload=payload)

    def close(self) -> None:
        super().close()
        if self._thread is None or not self._thread.is_alive():
            self._wake_reader.close()
            self._wake_writer.close()

    def forked(self) -> None:
        """The parent's session must not end when the child closes its copy, so the copy is replaced by /dev/null."""
        super().forked()
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):  # it was lost: there is nothing to protect
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, self._connection.fileno())
                os.close(nowhere)
        self._connection = None
        self._sender = _new_sender()
        self._wake_reader.close()
        self._wake_writer.close()
        self._wake_reader, self._wake_writer = _socket_pair()

    def _begin(self) -> None:
        self._start("afl-notify-postgres")

    def _interrupt(self) -> None:
        # Full: the thread will wake anyway. Closed: there is no thread any more.
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"!")

    def _work(self) -> None:
        failures = 0
        while not self._closing.is_set():
            begun = time.monotonic()
            try:
                self._session()
            except psycopg.Error as error:
                self._connection_lost()
                failures = 1 if time.monotonic() - begun > _SETTLED_SECONDS else failures + 1
                if failures == 1:
                    _log.warning(
                        "the notifier lost its connection to %s: %s; connecting again",
                        self.name,
                        " ".join(str(error).split()),
                    )
                self._closing.wait(_RETRY.delay(failures))

    def _session(self) -> None:
        """From connecting to the loss of the connection, or to the closing of the transport."""
        with psycopg.connect(_with_defaults(self._url), autocommit=True) as connection:
            self._connection = connection
            try:
                connection.add_notify_handler(self._notified)
                connection.execute(_Q.listen.postgres)
                self._connection_made()
                self._serve(connection)
            finally:
                self._connection = None

    def _serve(self, connection: psycopg.Connection) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            next_send = 0.0
            while True:
                # Read before sending, so that the last notifications are sent too.
                closing = self._closing.is_set()
                wait = next_send - time.monotonic() if self._unsent else None
                if closing or (wait is not None and wait <= 0):
                    self._send(connection)
                    wait, next_send = None, time.monotonic() + _SEND_SECONDS
                if closing:
                    return
                for key, _ in selector.select(wait):
                    if key.fileobj is self._wake_reader:
                        self._wake_reader.recv(4096)
                    else:
                        self._receive(connection)

    def _send(self, connection: psycopg.Connection) -> None:
        topics = self._take_unsent()
        if not topics:
            return
        try:
            connection.execute(
                _Q.notify_all.postgres, {"payloads": [self.payload(topic) for topic in topics]}
            )
        except psycopg.Error:
            self._queue(topics)
            raise
        self._sent()

    def _receive(self, connection: psycopg.Connection) -> None:
        connection.pgconn.consume_input()
        notes = iter(connection.pgconn.notifies, None)
        self._received([note.extra.decode(errors="replace") for note in notes])

    def _notified(self, note: psycopg.Notify) -> None:
        """A notification that arrived during a statement of this connection."""
        self._received([note.payload])

    def _received(self, payloads: list[str]) -> None:
        received = (payload.partition(_SEPARATOR) for payload in payloads)
        # Those of this process were delivered at once.
        self.deliver(topic for topic, _, sender in received if sender != self._sender)


def _with_defaults(url: str) -> str:
    given = conninfo_to_dict(url)
    return make_conninfo(url, **{name: value for name, value in _DEFAULTS.items() if name not in given})


def _new_sender() -> str:
    """A name for this process, and for its memory alone: a forked child has another."""
    return os.urandom(6).hex()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    return reader, writer
