"""Several statements in one round trip, by the driver's own protocol functions.

They are prepared once for a connection, and their parameters travel as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
from psycopg.errors import DivisionByZero, FeatureNotSupported
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from afl.kernel.database.postgres_line import FINE, Line
from afl.kernel.database.postgres_prepared import Kind, StaleStatement, values_of
from afl.kernel.database.postgres_values import sent, types_of
from afl.kernel.database.queries import Query
from afl.kernel.database.statement import Statement
from afl.kernel.errors import FencedError

Call = tuple[str, tuple[int, ...], list[bytes | None]]
_INFERRED = ()  # the columns that the values are for tell their types
_numbers = count(1)


@dataclass(slots=True)
class Heard:
    """What the server answered: how many rows were hit, how many answers were fine, and then the first refusal."""

    hit: int = 0
    fine: int = 0
    refusal: PGresult | None = None


class Pipeline:
    """That of one connection, which nobody else uses meanwhile. What is prepared lasts as long as the connection."""

    def __init__(self, line: Line, *, prepares: bool) -> None:
        self._line = line
        self._prepares = prepares
        self._prepared: dict[Kind, bytes] = {}

    def run(self, statements: Sequence[Statement]) -> None:
        """All of them or none: until the end of a pipeline the server takes everything for one transaction.

        Everything is made before anything is sent. To send each as soon as it is made would be quicker, but with the
        first the server holds locks for us: a process that is stopped or cut off in between would keep its run from
        everybody else until the server notices, which may take hours.
        Raises psycopg's error if one fails. The connection is closed if it is left in the middle.
        """
        calls = [(_text_of(each), _INFERRED, sent(each.params)) for each in statements]
        try:
            self._send(calls)
        except DivisionByZero as error:
            raise FencedError("a row is no longer ours; nothing was written") from error

    def many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> int:
        """One statement with many rows, inside the transaction that is under way; how many rows it hit."""
        values = [values_of(query, row) for row in rows]
        return self._send([(query.postgres_numbered, types_of(each), sent(each)) for each in values])

    def _send(self, calls: Sequence[Call]) -> int:
        """How many rows were hit; raises the first refusal."""
        pgconn = self._line.pgconn
        try:
            pgconn.enter_pipeline_mode()
            asked = self._ask(calls)
            pgconn.pipeline_sync()
            received = self._receive()
            pgconn.exit_pipeline_mode()
        except BaseException as error:
            self._line.give_up(error)
            raise
        if len(asked) > len(calls):
            self._prepared.update(each for each in asked[: received.fine] if each is not None)
        if received.refusal is not None:
            raise self._refused(self._line.error(received.refusal))
        return received.hit

    def _ask(self, calls: Sequence[Call]) -> list[tuple[Kind, bytes] | None]:
        """Ask for everything. What was asked for, one by one: a statement to be prepared, or None for an execution."""
        pgconn = self._line.pgconn
        asked: list[tuple[Kind, bytes] | None] = []
        fresh: dict[Kind, bytes] = {}
        for text, types, values in calls:
            if self._prepares:
                name = self._prepared.get((text, types)) or fresh.get((text, types))
                if name is None:
                    name = fresh[text, types] = b"afl_%d" % next(_numbers)
                    pgconn.send_prepare(name, text.encode(), types or None)
                    asked.append(((text, types), name))
                pgconn.send_query_prepared(name, values)
            else:
                pgconn.send_query_params(text.encode(), values, types)
            asked.append(None)
        return asked

    def _refused(self, error: psycopg.Error) -> psycopg.Error:
        if not isinstance(error, FeatureNotSupported) or not self._prepared:
            return error
        self._prepared.clear()
        return StaleStatement(str(error))

    def _receive(self) -> Heard:
        """Everything that the server answers up to its last word; after a refusal it does nothing more."""
        self._line.flush()
        received = Heard()
        while True:
            result = self._line.result()
            if result is None:  # the end of one statement
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                return received
            if received.refusal is None and result.status in FINE:
                received.fine += 1
                received.hit += result.command_tuples or 0
            elif received.refusal is None:
                received.refusal = result


def _text_of(statement: Statement) -> str:
    """Nobody looks at how many rows a statement hit before the next one runs: it has to fail by itself."""
    query = statement.query
    return query.postgres_hitting if statement.must_hit else query.postgres_numbered
