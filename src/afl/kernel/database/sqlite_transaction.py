"""A transaction on an SQLite connection, and SQLite's errors in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from afl.kernel.clock import steady_ms
from afl.kernel.codec import encode
from afl.kernel.database.base import Row, Transaction
from afl.kernel.database.queries import Query, queries
from afl.kernel.errors import PayloadError, StoreConflict, StoreCorrupt, StoreError, StoreUnavailable

Q = queries("afl.kernel.database", "sql")
_known_reads: set[str] = set()  # statements that a store in memory has run, and that write nothing
_BAD_VALUE = (OverflowError, UnicodeEncodeError)


class SqliteTransaction(Transaction):
    """What a transition sees of a connection. `shift` turns the machine's steady clock into the store's."""

    __slots__ = ("_connection", "_path", "_shift", "failed")

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection, path: str, shift: int) -> None:
        self._connection: sqlite3.Connection | None = connection
        self._path = path
        self._shift = shift
        self.failed = False

    def all(self, query: Query, /, **params: Any) -> list[Row]:
        try:
            return self._execute(query, params).fetchall()
        except (sqlite3.Error, *_BAD_VALUE) as error:
            self._fail(query, error)

    def one(self, query: Query, /, **params: Any) -> Row | None:
        try:
            cursor = self._execute(query, params)
            row: Row | None = cursor.fetchone()
            cursor.close()
        except (sqlite3.Error, *_BAD_VALUE) as error:
            self._fail(query, error)
        return row

    def run(self, query: Query, /, **params: Any) -> int:
        try:
            cursor = self._execute(query, params)
            if cursor.description is not None:  # RETURNING: the count is right only after the last row
                return len(cursor.fetchall())
        except (sqlite3.Error, *_BAD_VALUE) as error:
            self._fail(query, error)
        return max(cursor.rowcount, 0)

    def many(self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> int:
        try:
            return max(self._open().executemany(query.sqlite_positional, self._each(query, rows)).rowcount, 0)
        except (sqlite3.Error, *_BAD_VALUE) as error:
            self._fail(query, error)

    def check(self) -> None:
        """A transition must not go on as if nothing were wrong after one of its statements failed."""
        if self.failed:
            raise StoreError(
                "a statement failed and its error was caught: such a transaction cannot be committed"
            )

    def commit(self) -> None:
        try:
            self._open().execute("COMMIT")
        except sqlite3.Error as error:
            raise failure(error, self._path, "commit") from error

    def end(self) -> None:
        """Every later use of this transaction is an error."""
        self._connection = None

    def _execute(self, query: Query, params: dict[str, Any]) -> sqlite3.Cursor:
        for name in query.lists:
            params[name] = encode(params[name], what=f"parameter {name}")
        if query.now:
            params["now"] = steady_ms() + self._shift
        return self._open().execute(query.sqlite_positional, _values_of(query, params))

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(
                "this transaction is over; it cannot be used outside the function it was given to"
            )
        return self._connection

    def _each(
        self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]]
    ) -> Iterable[Sequence[Any]]:
        now = {"now": steady_ms() + self._shift} if query.now else {}
        is_as_given = query.sqlite_places == query.parameters
        for row in rows:
            if not isinstance(row, tuple):
                yield _values_of(query, {**row, **now})
            elif is_as_given:
                yield row
            else:
                yield _values_of(query, {**dict(zip(query.parameters, row, strict=True)), **now})

    def _fail(self, query: Query, error: Exception) -> NoReturn:
        self.failed = True
        if isinstance(error, _BAD_VALUE):
            raise PayloadError(f"query {query.name}: a value does not fit the store: {error}") from error
        assert isinstance(error, sqlite3.Error)
        raise failure(error, self._path, f"query {query.name}") from error


def _values_of(query: Query, row: Mapping[str, Any]) -> list[Any]:
    """In the order of their places: to find them by their names takes SQLite half as long again."""
    try:
        return [row[name] for name in query.sqlite_places]
    except KeyError as missing:
        raise sqlite3.ProgrammingError(f"the parameter {missing} is not given") from missing


def skipped_ms(connection: sqlite3.Connection) -> int:
    """How far the clock of a store for tests is ahead; see `SqliteDatabase.allow_time_skipping`."""
    (milliseconds,) = connection.execute(Q.skipped_time.sqlite).fetchone()
    return int(milliseconds)


class ReadTransaction(SqliteTransaction):
    """The same on a connection that refuses to write."""

    __slots__ = ()

    def _fail(self, query: Query, error: Exception) -> NoReturn:
        if isinstance(error, sqlite3.Error) and primary_code(error) == sqlite3.SQLITE_READONLY:
            raise StoreError(f"query {query.name} writes inside a read; call write instead") from error
        super()._fail(query, error)


class MemoryReadTransaction(ReadTransaction):
    """The same on the one connection of a store in memory, which writes at other times.

    Each change of `query_only` makes SQLite compile every statement anew, which takes longer than most statements.
    So it is changed only for statements that have not been seen: whether one writes is in its text.
    """

    __slots__ = ()

    def many(self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> int:
        with self._refusing_writes():
            return super().many(query, rows)

    def _execute(self, query: Query, params: dict[str, Any]) -> sqlite3.Cursor:
        if query.sqlite_positional in _known_reads:
            return super()._execute(query, params)
        given = dict(params)
        with (
            self._refusing_writes()
        ):  # to its end: a change of query_only aborts a statement that is under way
            super()._execute(query, given).fetchall()
        _known_reads.add(query.sqlite_positional)
        return super()._execute(query, params)

    @contextmanager
    def _refusing_writes(self) -> Iterator[None]:
        connection = self._open()
        connection.execute("PRAGMA query_only = on")
        try:
            yield
        finally:
            connection.execute("PRAGMA query_only = off")


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its detail; 0 for what the Python module itself refused."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: BaseException | None) -> bool:
    """Whether another program has the file locked."""
    return isinstance(error, sqlite3.Error) and primary_code(error) == sqlite3.SQLITE_BUSY


def failure(error: sqlite3.Error, path: str, doing: str) -> StoreError:
    """What went wrong, where, and what to do about it."""
    code = primary_code(error)
    if isinstance(error, sqlite3.IntegrityError):
        return StoreConflict(f"{doing}: {error}")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreCorrupt(
            f"{path} is damaged or is not an SQLite database ({error}); "
            "restore it from a backup or name another file"
        )
    advice = _ADVICE.get(code)
    if advice is not None:
        return StoreUnavailable(f"{path}: {error} ({doing}); {advice}")
    return StoreError(f"{doing} failed on {path}: {error}")


_ADVICE = {
    sqlite3.SQLITE_CANTOPEN: "check that its directory exists and that you may write there",
    sqlite3.SQLITE_READONLY: "the file or its directory is read-only: check their permissions",
    sqlite3.SQLITE_PERM: "check the permissions of the file and its directory",
    sqlite3.SQLITE_IOERR: "the disk reports an error: check the device and the system's log",
    sqlite3.SQLITE_FULL: "the disk is full: free some space and try again",
    sqlite3.SQLITE_BUSY: "another program keeps it locked: end that program's transaction",
    sqlite3.SQLITE_NOMEM: "the process is out of memory",
}
