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

from afl.kernel.database.postgres_line import Line, is_fine
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
        asked: list[
            tuple[Kind, bytes] | None
        ] = []  # what the server was told, one by one: to prepare, or to execute
        fresh: dict[Kind, bytes] = {}
        try:
            pgconn.enter_pipeline_mode()
            for text, types, values in calls:
                if not self._prepares:
                    pgconn.send_query_params(text.encode(), values, types)
                    continue
                kind = text, types
                name = self._prepared.get(kind) or fresh.get(kind)
                if name is None:
                    name = fresh[kind] = b"afl_%d" % next(_numbers)
                    pgconn.send_prepare(name, text.encode(), types or None)
                    asked.append((kind, name))
                pgconn.send_query_prepared(name, values)
                asked.append(None)
            pgconn.pipeline_sync()
            heard = self._hear()
            pgconn.exit_pipeline_mode()
        except BaseException as error:
            self._line.give_up(error)
            raise
        self._prepared.update(each for each in asked[: heard.fine] if each is not None)
        if heard.refusal is not None:
            raise self._refused(self._line.error(heard.refusal))
        return heard.hit

    def _refused(self, error: psycopg.Error) -> psycopg.Error:
        if not isinstance(error, FeatureNotSupported) or not self._prepared:
            return error
        self._prepared.clear()
        return StaleStatement(str(error))

    def _hear(self) -> Heard:
        """Everything that the server answers up to its last word."""
        self._line.flush()
        heard = Heard()
        while True:
            result = self._line.result()
            if result is None:  # the end of one statement
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                return heard
            if heard.refusal is None and not is_fine(result):
                heard.refusal = result
            elif heard.refusal is None:
                heard.fine += 1
                heard.hit += result.command_tuples or 0


def _text_of(statement: Statement) -> str:
    """Nobody looks at how many rows a statement hit before the next one runs: it has to fail by itself."""
    text = statement.query.postgres_numbered
    return f"with hit as ({text} returning 1) select 1 / count(*) from hit" if statement.must_hit else text
