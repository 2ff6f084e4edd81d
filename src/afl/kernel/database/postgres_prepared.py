"""Single statements on one connection, by the driver's own protocol functions.

A cursor learns and describes the types of whatever it is given, which takes longer than a small statement takes the
server. Here a statement is prepared once for a connection, and knows from then on how to read what comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import FeatureNotSupported
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from afl.kernel.database.base import Row
from afl.kernel.database.postgres_line import Line
from afl.kernel.database.postgres_values import sent, types_of
from afl.kernel.database.queries import Query

_MOST = 1000  # statements that a connection remembers
_numbers = count(1)


class Answer:
    """What came of a statement: its rows, and how many rows it gave or changed."""

    __slots__ = ("count", "rows")

    def __init__(self, rows: list[Row], count: int) -> None:
        self.rows = rows
        self.count = count


class Known:
    """A statement that this connection has seen, and how to read what comes of it. It gets a name when prepared."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.name = b""
        self._transformer = Transformer(connection)
        self._columns: list[str] = []

    def read(self, result: PGresult) -> Answer:
        """All of it; nothing of the driver's result is kept, which may be large."""
        if not result.nfields:
            return Answer([], result.command_tuples or 0)
        if not self._columns:
            names = [result.fname(place) or b"" for place in range(result.nfields)]
            self._columns = [name.decode() for name in names]
        self._transformer.set_pgresult(result)
        rows = self._transformer.load_rows(0, result.ntuples, self._row)
        self._transformer.set_pgresult(None)
        return Answer(rows, result.ntuples)

    def _row(self, values: Sequence[Any]) -> Row:
        return dict(zip(self._columns, values, strict=True))


class Prepared:
    """The statements of one connection. One that is used a second time is prepared; most commands use each once."""

    def __init__(self, connection: psycopg.Connection[Any], line: Line, *, prepares: bool) -> None:
        self._connection = connection
        self._line = line
        self._prepares = prepares
        self._known: dict[tuple[str, tuple[int, ...]], Known] = {}

    def say(self, text: str) -> None:
        """A statement without parameters and rows, such as COMMIT."""
        try:
            self._line.execute(text, (), ())
        except BaseException as error:
            self._left(error)
            raise

    def ask(self, query: Query, params: Mapping[str, Any]) -> Answer:
        """Execute it; raises psycopg's error if it fails."""
        values = values_of(query, params)
        types, texts = types_of(values), sent(values)
        key = query.postgres_numbered, types
        known = self._known.get(key)
        try:
            if known is None:
                known = self._first(key)
                return known.read(self._line.execute(key[0], texts, types))
            return known.read(self._line.execute_prepared(known.name or self._prepare(known, key), texts))
        except FeatureNotSupported:
            self._known.pop(key, None)
            if known is None or not known.name or not self._is_idle:
                raise
        except BaseException as error:
            self._left(error)
            raise
        return self.ask(query, params)  # a table was altered since it was prepared, and nothing was done yet

    def _first(self, key: tuple[str, tuple[int, ...]]) -> Known:
        known = Known(self._connection)
        if self._prepares and len(self._known) < _MOST:
            self._known[key] = known
        return known

    def _prepare(self, known: Known, key: tuple[str, tuple[int, ...]]) -> bytes:
        name = b"afl_one_%d" % next(_numbers)
        self._line.prepare(name, *key)
        known.name = name
        return name

    @property
    def _is_idle(self) -> bool:
        return self._line.pgconn.transaction_status == TransactionStatus.IDLE

    def _left(self, error: BaseException) -> None:
        """Whether in the middle of a statement or after its refusal: the connection is good for more, or closed."""
        if self._line.pgconn.transaction_status == TransactionStatus.ACTIVE:
            self._line.give_up(error)


def values_of(query: Query, params: Mapping[str, Any]) -> list[Any]:
    """The parameters in the order of their numbers."""
    try:
        return [params[name] for name in query.postgres_parameters]
    except KeyError as missing:
        raise psycopg.ProgrammingError(f"the parameter {missing} is not given") from missing
