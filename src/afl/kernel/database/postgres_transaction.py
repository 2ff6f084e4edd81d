"""A transaction on a PostgreSQL connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import psycopg

from afl.kernel.database.base import Row, Transaction
from afl.kernel.database.postgres_errors import TRY_AGAIN, failure, lost
from afl.kernel.database.postgres_pool import Connection
from afl.kernel.database.queries import Query
from afl.kernel.errors import StoreError

_ERRORS = (psycopg.Error, UnicodeEncodeError)


class PostgresTransaction(Transaction):
    """What a transition sees of a connection. `again`: it failed by the moment, not by itself."""

    __slots__ = ("_connection", "_store", "again", "failed")

    dialect = "postgres"

    def __init__(self, connection: Connection, store: str) -> None:
        self._connection: Connection | None = connection
        self._store = store
        self.failed = self.again = False

    def all(self, query: Query, /, **params: Any) -> list[Row]:
        try:
            return self._open().single.ask(query, params).rows
        except _ERRORS as error:
            self._fail(query.name, error)

    def one(self, query: Query, /, **params: Any) -> Row | None:
        try:
            rows = self._open().single.ask(query, params).rows
            return rows[0] if rows else None
        except _ERRORS as error:
            self._fail(query.name, error)

    def run(self, query: Query, /, **params: Any) -> int:
        try:
            return self._open().single.ask(query, params).count
        except _ERRORS as error:
            self._fail(query.name, error)

    def many(self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> int:
        named = [_named(query, row) for row in rows]
        if not named:
            return 0
        try:
            return self._open().together.many(query, named)
        except _ERRORS as error:
            self._fail(query.name, error)

    def begin(self, statement: str) -> None:
        try:
            self._open().single.say(statement)
        except psycopg.Error as error:
            self._fail("begin", error)

    def check(self) -> None:
        """The server will not commit after a failed statement, and says so only in passing."""
        if self.failed:
            raise StoreError(
                "a statement failed and its error was caught: such a transaction cannot be committed"
            )

    def end(self) -> None:
        """From now on nobody can use this transaction by mistake."""
        self._connection = None

    def _open(self) -> Connection:
        if self._connection is None:
            raise StoreError(
                "this transaction is over; it cannot be used outside the function it was given to"
            )
        return self._connection

    def _fail(self, name: str, error: Exception) -> NoReturn:
        self.failed = True
        self.again = isinstance(error, TRY_AGAIN) or lost(error, self._open())
        raise failure(error, f"query {name}", self._store) from error


def _named(query: Query, row: Mapping[str, Any] | tuple[Any, ...]) -> Mapping[str, Any]:
    return dict(zip(query.parameters, row, strict=True)) if isinstance(row, tuple) else row
