"""A transaction on a PostgreSQL connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import psycopg

from afl.kernel.database.base import Row, Transaction
from afl.kernel.database.postgres_errors import TRY_AGAIN, failure, lost
from afl.kernel.database.postgres_pool import Session
from afl.kernel.database.queries import Query
from afl.kernel.errors import StoreError

_ERRORS = (psycopg.Error, UnicodeEncodeError)


class PostgresTransaction(Transaction):
    """A transaction of one session. `again`: it failed for a reason that a second run may not meet."""

    __slots__ = ("_session", "_store", "again", "failed")

    dialect = "postgres"

    def __init__(self, session: Session, store: str) -> None:
        self._session: Session | None = session
        self._store = store
        self.failed = self.again = False

    def all(self, query: Query, /, **params: Any) -> list[Row]:
        try:
            return self._open().all(query, params)
        except _ERRORS as error:
            self._fail(query.name, error)

    def one(self, query: Query, /, **params: Any) -> Row | None:
        try:
            rows = self._open().all(query, params)
            return rows[0] if rows else None
        except _ERRORS as error:
            self._fail(query.name, error)

    def run(self, query: Query, /, **params: Any) -> int:
        try:
            return self._open().run(query, params)
        except _ERRORS as error:
            self._fail(query.name, error)

    def many(self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> int:
        named = [_named(query, row) for row in rows]
        if not named:
            return 0
        try:
            return self._open().many(query, named)
        except _ERRORS as error:
            self._fail(query.name, error)

    def begin(self, statement: str) -> None:
        try:
            self._open().begin(statement)
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
        self._session = None

    def _open(self) -> Session:
        if self._session is None:
            raise StoreError(
                "this transaction is over; it cannot be used outside the function it was given to"
            )
        return self._session

    def _fail(self, name: str, error: Exception) -> NoReturn:
        self.failed = True
        self.again = isinstance(error, TRY_AGAIN) or lost(error, self._open().connection)
        raise failure(error, f"query {name}", self._store) from error


def _named(query: Query, row: Mapping[str, Any] | tuple[Any, ...]) -> Mapping[str, Any]:
    return dict(zip(query.parameters, row, strict=True)) if isinstance(row, tuple) else row
