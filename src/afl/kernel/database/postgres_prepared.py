"""Single statements on one connection, by the driver's own protocol functions.

A cursor learns and describes the types of whatever it is given, which takes longer than a small statement takes the
server. Here a statement is prepared once for a connection, and knows from then on how to read what comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
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

Kind = tuple[str, tuple[int, ...]]  # a statement's text, and the types of its values
_MOST = 1000  # statements that a connection remembers
_numbers = count(1)


class Answer:
    """What came of a statement: its rows, and how many rows it gave or changed."""

    __slots__ = ("count", "rows")

    def __init__(self, rows: list[Row], count: int) -> None:
        self.rows = rows
        self.count = count


class Known:
    """A statement that this connection has seen, and how to read what comes of it. One that is prepared has a name."""

    def __init__(self, connection: psycopg.Connection[Any], name: bytes = b"") -> None:
        self.name = name
        self._transformer = Transformer(connection)
        self._columns: list[str] = []

    def read(self, result: PGresult) -> Answer:
        """All of it; nothing of the driver's result is kept, which may be large."""
        if not result.nfields:
            return Answer([], result.command_tuples or 0)
        if not self._columns:
            names = [result.fname(place) or b"" for place in range(result.nfields)]
            self._columns = [name.decode() for name in names]
        try:
            self._transformer.set_pgresult(result)
            rows: list[tuple[Any, ...]] = self._transformer.load_rows(0, result.ntuples, tuple)
        finally:
            self._transformer.set_pgresult(None)
        columns = self._columns
        return Answer([dict(zip(columns, row)) for row in rows], len(rows))  # noqa: B905  # strict takes longer


class StaleStatement(FeatureNotSupported):
    """A table was altered since a statement was prepared, which is refused for that; everything was undone."""


class Prepared:
    """The statements of one connection. One that is used a second time is prepared; most commands use each once."""

    def __init__(self, connection: psycopg.Connection[Any], line: Line, *, prepares: bool) -> None:
        self._connection = connection
        self._line = line
        self._prepares = prepares
        self._known: dict[Kind, Known] = {}

    def say(self, text: str) -> None:
        """A statement without parameters and rows, such as COMMIT."""
        try:
            self._line.execute(text, (), [])
        except BaseException as error:
            self._left(error)
            raise

    def ask(self, query: Query, params: Mapping[str, Any]) -> Answer:
        """Execute it; raises psycopg's error if it fails."""
        key, texts = _words(query, params)
        known = self._known.get(key)
        try:
            if known is None:
                known = self._first(key)
                return known.read(self._line.execute(*key, texts))
            if not known.name:
                known = self._known[key] = self._prepare(key)
            return known.read(self._line.execute_prepared(known.name, texts))
        except FeatureNotSupported as error:
            if known is None or not known.name:
                raise
            self._known.clear()  # others may be of the same table
            if not self._is_idle:
                raise StaleStatement(str(error)) from error
        except BaseException as error:
            self._left(error)
            raise
        return self.ask(query, params)

    def _first(self, key: Kind) -> Known:
        known = Known(self._connection)
        if self._prepares and len(self._known) < _MOST:
            self._known[key] = known
        return known

    def _prepare(self, key: Kind) -> Known:
        """Its columns may be others by now than those of its first use."""
        known = Known(self._connection, b"afl_one_%d" % next(_numbers))
        self._line.prepare(known.name, *key)
        return known

    @property
    def _is_idle(self) -> bool:
        return self._line.pgconn.transaction_status == TransactionStatus.IDLE

    def _left(self, error: BaseException) -> None:
        """Whether in the middle of a statement or after its refusal: the connection is good for more, or closed."""
        if self._line.pgconn.transaction_status == TransactionStatus.ACTIVE:
            self._line.give_up(error)


def _words(query: Query, params: Mapping[str, Any]) -> tuple[Kind, list[bytes | None]]:
    """What a statement is known by, and its values as they are sent."""
    values = values_of(query, params)
    return (query.postgres_numbered, types_of(values)), sent(values)


def values_of(query: Query, params: Mapping[str, Any]) -> list[Any]:
    """The parameters in the order of their numbers."""
    try:
        return [params[name] for name in query.postgres_parameters]
    except KeyError as missing:
        raise psycopg.ProgrammingError(f"the parameter {missing} is not given") from missing
