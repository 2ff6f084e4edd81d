"""A connection as a line: what is sent over it, and what the server answers."""

from __future__ import annotations

import contextlib
import select
from typing import Any

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

_FINE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_CANCEL_SECONDS = 1.0


class Line:
    """That of one connection, which nobody else uses meanwhile. An interrupt ends every wait, and the connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    @property
    def pgconn(self) -> PGconn:
        """The driver's own functions."""
        return self._connection.pgconn

    def flush(self) -> None:
        """Send everything. Meanwhile the server may answer, and stops to listen if nobody hears it."""
        pgconn = self._connection.pgconn
        if not pgconn.flush():
            return
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN | select.POLLOUT)
        while pgconn.flush():
            if poll.poll()[0][1] & select.POLLIN:
                pgconn.consume_input()

    def result(self) -> PGresult | None:
        """What the server says next; None at the end of a statement."""
        pgconn = self._connection.pgconn
        while pgconn.is_busy():
            self._poll.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None and pgconn.status != ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")
        return result

    def answer(self) -> PGresult:
        """Send everything, and hear all of the answer to one statement; raises what the server refuses it with."""
        self.flush()
        first = self.result()
        assert first is not None  # every statement has an answer
        while self.result() is not None:
            pass
        if not is_fine(first):
            raise self.error(first)
        return first

    def error(self, refusal: PGresult) -> psycopg.Error:
        """A refusal as the driver's error."""
        return error_from_result(refusal, self._connection.info.encoding)

    def give_up(self, error: BaseException) -> None:
        """Left in the middle of a statement: the server is told, so that it does not wait for a lock in our name."""
        if not isinstance(error, psycopg.Error):
            with contextlib.suppress(psycopg.Error):
                self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
        self._connection.close()


def is_fine(result: PGresult) -> bool:
    """Whether it is no refusal."""
    return result.status in _FINE
