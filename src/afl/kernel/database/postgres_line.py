"""A connection as a line: what is sent over it, and what the server answers."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Sequence
from threading import get_ident, main_thread
from typing import Any

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

FINE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_CANCEL_SECONDS = 1.0


class Line:
    """That of one connection, which nobody else uses meanwhile. An interrupt ends every wait, and the connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.pgconn: PGconn = connection.pgconn  # the driver's own functions
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def flush(self) -> None:
        """Send everything. Meanwhile the server may answer, and stops to listen if nobody hears it."""
        pgconn = self.pgconn
        if not pgconn.flush():
            return
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN | select.POLLOUT)
        while pgconn.flush():
            if poll.poll()[0][1] & select.POLLIN:
                pgconn.consume_input()

    def result(self) -> PGresult | None:
        """What the server says next; None at the end of a statement."""
        pgconn = self.pgconn
        while pgconn.is_busy():
            self._poll.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None and pgconn.status != ConnStatus.OK:
            raise _lost()
        return result

    def prepare(self, name: bytes, text: str, types: Sequence[int]) -> None:
        """Have a statement prepared; raises what the server refuses it with."""
        if _may_be_interrupted():
            self.pgconn.send_prepare(name, text.encode(), types)
            self.flush()
            self.receive()
        else:
            self._checked(self.pgconn.prepare(name, text.encode(), types))

    def execute(self, text: str, types: Sequence[int], values: Sequence[bytes | None]) -> PGresult:
        """One statement, and all of its answer; raises what the server refuses it with."""
        if _may_be_interrupted():
            self.send(text, types, values)
            return self.receive()
        return self._checked(self.pgconn.exec_params(text.encode(), values, types))

    def execute_prepared(self, name: bytes, values: Sequence[bytes | None]) -> PGresult:
        """The same for one that is prepared."""
        if _may_be_interrupted():
            self.send_prepared(name, values)
            return self.receive()
        return self._checked(self.pgconn.exec_prepared(name, values))  # type: ignore[arg-type]

    def send(self, text: str, types: Sequence[int], values: Sequence[bytes | None]) -> None:
        """Have one statement executed; `hear` what comes of it before anything else is sent."""
        self.pgconn.send_query_params(text.encode(), values, types)
        self.flush()

    def send_prepared(self, name: bytes, values: Sequence[bytes | None]) -> None:
        """The same for one that is prepared."""
        self.pgconn.send_query_prepared(name, values)
        self.flush()

    def receive(self) -> PGresult:
        """All of the answer to what was sent: it may be done and still fail at its commit."""
        answer = self.result()
        assert answer is not None  # every statement has one
        while (later := self.result()) is not None:
            answer = answer if later.status in FINE else later
        return self._checked(answer)

    def _checked(self, result: PGresult) -> PGresult:
        if self.pgconn.status != ConnStatus.OK:
            raise _lost()
        if result.status not in FINE:
            raise self.error(result)
        return result

    def error(self, refusal: PGresult) -> psycopg.Error:
        """A refusal as the driver's error."""
        return error_from_result(refusal, self._connection.info.encoding)

    def give_up(self, error: BaseException) -> None:
        """Left in the middle of a statement: the server is told, so that it does not wait for a lock in our name."""
        try:
            if not isinstance(error, psycopg.Error):
                with contextlib.suppress(psycopg.Error):
                    self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
        finally:
            self._connection.close()


def _may_be_interrupted() -> bool:
    """Only the main thread hears interrupts, and must look up for them.

    Every look takes the interpreter anew: beside a busy thread that is five milliseconds each time, and a large answer
    comes in many pieces. The other threads leave the waiting to the driver, without the interpreter.
    """
    return get_ident() == main_thread().ident


def _lost() -> psycopg.OperationalError:
    return psycopg.OperationalError("the connection is lost")
