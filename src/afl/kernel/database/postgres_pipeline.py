"""Several statements in one round trip and one transaction, by the driver's own protocol functions.

A cursor learns and describes the types of whatever it is given, which takes longer than a small statement takes the
server. Here a statement is prepared once for a connection, and its parameters travel as text.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg.errors import DivisionByZero, InvalidSqlStatementName, error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from afl.kernel.database.statement import Statement
from afl.kernel.errors import FencedError

_FINE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_numbers = count(1)


class Pipeline:
    """That of one connection, which nobody else uses meanwhile. What is prepared lasts as long as the connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._prepared: dict[str, bytes] = {}

    def run(self, statements: Sequence[Statement]) -> None:
        """All of them or none: until the end of a pipeline the server takes everything for one transaction.

        Everything is made before anything is sent. To send each as soon as it is made would be quicker, but with the
        first the server holds locks for us: a process that is stopped or cut off in between would keep its run from
        everybody else until the server notices, which may take hours.
        Raises psycopg's error if one fails. The connection is closed if it is left in the middle.
        """
        calls = [(_text_of(each), _sent(each.params)) for each in statements]
        failed = self._send(calls)
        if isinstance(failed, InvalidSqlStatementName):
            self._prepared.clear()  # psycopg deallocates everything now and then, ours too
            failed = self._send(calls)
        if isinstance(failed, DivisionByZero):
            raise FencedError("a row is no longer ours; nothing was written") from failed
        if failed is not None:
            raise failed

    def _send(self, calls: Sequence[tuple[str, list[bytes | None]]]) -> psycopg.Error | None:
        """The first refusal, if any."""
        pgconn = self._connection.pgconn
        try:
            pgconn.enter_pipeline_mode()
            for text, params in calls:
                name = self._prepared.get(text)
                if name is None:
                    name = self._prepared[text] = b"afl_%d" % next(_numbers)
                    pgconn.send_prepare(name, text.encode())
                pgconn.send_query_prepared(name, params)
            pgconn.pipeline_sync()
            failed = _first_failure(pgconn, self._connection.fileno())
            pgconn.exit_pipeline_mode()
        except BaseException:
            self._connection.close()
            raise
        return None if failed is None else error_from_result(failed, self._connection.info.encoding)


def _text_of(statement: Statement) -> str:
    """Nobody looks at how many rows a statement hit before the next one runs: it has to fail by itself."""
    text = statement.query.postgres_numbered
    return f"with hit as ({text} returning 1) select 1 / count(*) from hit" if statement.must_hit else text


def _sent(values: Sequence[Any]) -> list[bytes | None]:
    """Text, numbers and null, as text that ends with its first zero byte."""
    sent = [
        value.encode() if isinstance(value, str) else None if value is None else str(value).encode()
        for value in values
    ]
    if b"\0" in b"".join(filter(None, sent)):
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return sent


def _first_failure(pgconn: PGconn, socket: int) -> PGresult | None:
    """Everything that the server answers up to its last word; the first refusal in it."""
    poll = select.poll()
    poll.register(socket, select.POLLIN | select.POLLOUT)
    while pgconn.flush():
        if poll.poll()[0][1] & select.POLLIN:
            pgconn.consume_input()
    poll.modify(socket, select.POLLIN)
    failed: PGresult | None = None
    while True:
        while pgconn.is_busy():
            poll.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:  # the end of one statement, or of everything
            if pgconn.status != ConnStatus.OK:
                raise psycopg.OperationalError("the connection is lost")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            return failed
        elif failed is None and result.status not in _FINE:
            failed = result
