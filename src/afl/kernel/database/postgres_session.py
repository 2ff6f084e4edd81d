"""Sessions of a PostgreSQL database: a pool of them, the transaction of one, and its errors as ours.

The session returned last is used first, and a closed one never."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.pq import PipelineStatus, TransactionStatus

from afl.kernel.database.base import Row, Statement, Transaction
from afl.kernel.database.queries import Query
from afl.kernel.errors import FencedError, PayloadError, StoreConflict, StoreError, StoreUnavailable

FENCED = (
    "AF001"  # the SQLSTATE that our functions raise where a write misses the row that its epoch must hold
)
# A table was altered since a statement was prepared: the statement is refused in every session that prepared it.
STALE = errors.FeatureNotSupported
# A primary has become a replica; the name of the service may lead to the new one by now.
READ_ONLY = errors.ReadOnlySqlTransaction
# The server rolled the transaction back, which may be run again.
TRY_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, STALE, READ_ONLY)
_GOING_AWAY = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.DatabaseDropped)


def lost(error: Exception, connection: psycopg.Connection[dict[str, object]]) -> bool:
    """Whether the connection is lost, and with it every uncommitted statement."""
    return connection.closed or isinstance(error, _GOING_AWAY)


def failure(error: Exception, doing: str, store: str) -> StoreError | PayloadError | FencedError:
    """What went wrong, where, and what to do about it."""
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, psycopg.Error) and error.sqlstate == FENCED:
        return FencedError(f"{doing}: {text}")
    if isinstance(error, psycopg.IntegrityError | errors.CardinalityViolation):
        return StoreConflict(f"{doing}: {text}")
    if isinstance(error, psycopg.DataError | UnicodeEncodeError | errors.ProgramLimitExceeded):
        return PayloadError(f"{doing}: a value does not fit the store: {text}")
    if isinstance(error, READ_ONLY):
        return StoreUnavailable(
            f"{doing} failed: {store} accepts no writes; it is a replica now, or was set to read-only, "
            "as hosted servers are while their disk is full"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(f"{doing} failed on {store}: {text}; grant the role the right, or use another role")
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(f"{doing} failed on {store}: {text}")
    return StoreError(f"{doing} failed on {store}: {text}")


def unreachable(error: Exception, store: str) -> StoreUnavailable:
    """Why no connection could be made."""
    text = " ".join(str(error).split())
    return StoreUnavailable(
        f"cannot connect to {store}: {text}; check that the server runs, and host, port, user and database"
    )


def unreadable(store: str) -> StoreUnavailable:
    """For a URL the driver cannot read; its own words are not repeated, since they may hold a password."""
    return StoreUnavailable(
        f"the URL {store} cannot be read; expected postgresql://user:password@host:port/database "
        "with special characters in the password percent-encoded"
    )


Connection = psycopg.Connection[dict[str, Any]]
_CANCEL_SECONDS = 1.0


class _Batch(psycopg.Pipeline):
    """A pipeline whose statements are sent together, when it ends.

    psycopg sends each on its own: a system call, and a moment in which another thread takes the interpreter. With
    this and `BEGIN` in the batch of the first statement, eight agents take 15 % more turns a second. The method is
    private to psycopg: under another name it would not be called, and statements would be sent one by one again.
    """

    def _communicate_gen(self) -> PQGen[None]:
        while self.command_queue:
            self.command_queue.popleft()()
        yield from ()


class Session:
    """A connection with the cursors that run its statements.

    A new cursor for every statement costs 20 µs, a fifth of what a small statement takes with its round trip.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        self._cursors: list[psycopg.Cursor[dict[str, Any]]] = []  # of statements whose rows are read together
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def all(self, query: Query, params: Mapping[str, Any]) -> list[Row]:
        """Every row the statement gives."""
        self._cursor.execute(query.postgres, params)
        return _rows(self._cursor)

    def many(self, query: Query, rows: Sequence[Mapping[str, Any]]) -> int:
        """The statement once per row of parameters, in one pipeline; how many rows were changed in all."""
        self._cursor.executemany(query.postgres, rows)
        return self._cursor.rowcount

    def pipeline(self, statements: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Row]:
        """Several statements in one round trip; the rows of the last one."""
        with self._batch():
            for text, params in statements:
                self._cursor.execute(text, params)
        return _rows(self._cursor)

    def each(
        self,
        before: Sequence[tuple[str, Mapping[str, Any]]],
        statements: Sequence[tuple[str, Mapping[str, Any]]],
    ) -> list[list[Row]]:
        """Several statements in one round trip; the rows of each but those of `before`."""
        with self._batch():
            for text, params in before:
                self._cursor.execute(text, params)
            self._cursors += [self.connection.cursor() for _ in statements[len(self._cursors) :]]
            cursors = self._cursors[: len(statements)]
            for cursor, (text, params) in zip(cursors, statements, strict=True):
                cursor.execute(text, params)
        return [_rows(cursor) for cursor in cursors]

    @contextlib.contextmanager
    def _batch(self) -> Iterator[None]:
        self.connection._pipeline = _Batch(self.connection)  # `pipeline` enters the one it finds
        with self.connection.pipeline():
            yield

    @property
    def row_count(self) -> int:
        """How many rows the last statement returned or changed."""
        return max(0, self._cursor.rowcount)

    @property
    def is_usable(self) -> bool:
        """Whether an idle session still has a server: a server sends nothing unasked but the end of the session."""
        return not self.connection.closed and not self._poll.poll(0)

    def settle(self) -> None:
        """Leave the connection idle, or closed. A statement left by an exception is canceled: it may hold locks."""
        pgconn = self.connection.pgconn
        status = pgconn.transaction_status
        if status == TransactionStatus.IDLE and pgconn.pipeline_status == PipelineStatus.OFF:
            return
        try:
            if status == TransactionStatus.ACTIVE:
                self.connection.cancel_safe(timeout=_CANCEL_SECONDS)
            elif status != TransactionStatus.IDLE:
                self.connection.rollback()
                return
        except psycopg.Error:
            pass
        self.connection.close()


def _rows(cursor: psycopg.Cursor[dict[str, Any]]) -> list[Row]:
    result = cursor.pgresult
    rows: list[Row] = cursor.fetchall() if result is not None and result.nfields else []  # type: ignore[assignment]
    return rows


class Pool:
    """At most `size` sessions are in use at a time; a thread that requests one more waits."""

    def __init__(self, connect: Callable[[], Connection], size: int) -> None:
        self._connect = connect
        self._size = size
        self._idle: list[Session] = []
        self._slots = threading.Semaphore(size)
        self._closed = False

    def take(self) -> Session:
        """An idle session, or a new one."""
        self._slots.acquire()
        try:
            with contextlib.suppress(IndexError):  # another thread took the last one
                while self._idle:
                    session = self._idle.pop()
                    if session.is_usable:
                        return session
                    session.connection.close()
            return Session(self._connect())
        except BaseException:
            self._slots.release()
            raise

    def give(self, session: Session) -> None:
        """Return a session. One inside a transaction is rolled back, one inside a statement is closed."""
        session.settle()
        if self._closed:
            session.connection.close()
        elif not session.connection.closed:
            self._idle.append(session)
        self._slots.release()

    def add(self, connection: Connection) -> None:
        """Keep a connection that is open already for who takes a session next."""
        self._idle.append(Session(connection))

    def discard(self) -> None:
        """Close the idle sessions."""
        with contextlib.suppress(IndexError):
            while self._idle:
                self._idle.pop().connection.close()

    def close(self) -> None:
        """Close the idle sessions now, the others when they are returned."""
        self._closed = True
        self.discard()

    def forked(self) -> None:
        """In a forked child: forget the parent's sessions."""
        inherited, self._idle = self._idle, []
        self._slots = threading.Semaphore(self._size)
        for session in inherited:
            abandon(session.connection)


_inherited: list[Connection] = []


def abandon(connection: Connection) -> None:
    """In a forked child: close the parent's socket without ending the parent's session.

    If the child kept the socket, the server would not notice the parent's death while the child lives.
    """
    if not connection.closed:
        os.close(connection.fileno())
    _inherited.append(connection)


_ERRORS = (psycopg.Error, UnicodeEncodeError)


class PostgresTransaction(Transaction):
    """A transaction of one session. `again`: it failed for a reason that a second run may not meet."""

    __slots__ = ("_only_reads", "_queued", "_session", "_store", "again", "failed")

    dialect = "postgres"

    def __init__(self, session: Session, store: str, begin: str, only_reads: bool) -> None:
        self._session: Session | None = session
        self._store = store
        self._only_reads = only_reads
        self._queued: list[tuple[str, Mapping[str, Any]]] = [(begin, {})]  # sent with the first statement
        self.failed = self.again = False

    def all(self, query: Query, /, **params: Any) -> list[Row]:
        return self._rows(query, params)

    def one(self, query: Query, /, **params: Any) -> Row | None:
        rows = self._rows(query, params)
        return rows[0] if rows else None

    def run(self, query: Query, /, **params: Any) -> int:
        self._rows(query, params)
        return self._open().row_count

    def queue(self, query: Query, /, **params: Any) -> None:
        self._queued.append((query.postgres, params))

    def each(self, *statements: Statement) -> list[list[Row]]:
        if len(statements) == 1:
            return [self._rows(*statements[0])]
        texts = [(query.postgres, params) for query, params in statements]
        try:
            return self._open().each(self._take_queued(), texts)
        except _ERRORS as error:
            self._fail(" or ".join(query.name for query, _ in statements), error)

    def many(self, query: Query, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], /) -> int:
        named = [_named(query, row) for row in rows]
        if not named:
            return 0
        try:
            if self._queued:
                self._open().pipeline(self._take_queued())
            return self._open().many(query, named)
        except _ERRORS as error:
            self._fail(query.name, error)

    def commit(self) -> None:
        """Commit, in one round trip with what is queued; raises the driver's error."""
        if self._queued:
            self._open().pipeline([*self._take_queued(), ("COMMIT", {})])
        else:
            self._open().connection.commit()

    def _rows(self, query: Query, params: Mapping[str, Any]) -> list[Row]:
        """The rows of the statement, in one round trip with what is queued."""
        try:
            if not self._queued:
                return self._open().all(query, params)
            return self._open().pipeline([*self._take_queued(), (query.postgres, params)])
        except _ERRORS as error:
            self._fail(query.name, error)

    def _take_queued(self) -> list[tuple[str, Mapping[str, Any]]]:
        queued, self._queued = self._queued, []
        return queued

    def check(self) -> None:
        """After a failed statement the server rolls back at COMMIT without an error, so this raises one."""
        if self.failed:
            raise StoreError(
                "a statement failed and its error was caught: such a transaction cannot be committed"
            )

    def end(self) -> None:
        """Every later use of this transaction is an error."""
        self._session = None

    def _open(self) -> Session:
        if self._session is None:
            raise StoreError(
                "this transaction is over; it cannot be used outside the function it was given to"
            )
        return self._session

    def _fail(self, name: str, error: Exception) -> NoReturn:
        self.failed = True
        if isinstance(error, READ_ONLY) and self._only_reads:
            raise StoreError(f"query {name} writes inside a read; call write instead") from error
        self.again = isinstance(error, TRY_AGAIN) or lost(error, self._open().connection)
        raise failure(error, f"query {name}", self._store) from error


def _named(query: Query, row: Mapping[str, Any] | tuple[Any, ...]) -> Mapping[str, Any]:
    return dict(zip(query.parameters, row, strict=True)) if isinstance(row, tuple) else row
