"""The store in a PostgreSQL database, for processes on any number of machines."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from afl.kernel.database.address import safe_url
from afl.kernel.database.base import Database, Row, Transaction
from afl.kernel.database.migration import ensure
from afl.kernel.database.queries import Query, queries
from afl.kernel.database.schema import Schema
from afl.kernel.errors import MissingExtraError, StoreUnavailable, pip_install
from afl.kernel.presence import Presence

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.rows import dict_row
    from psycopg.types.array import ListDumper
    from psycopg.types.numeric import Int8Dumper

    from afl.kernel.database.postgres_session import (
        READ_ONLY,
        STALE,
        TRY_AGAIN,
        Connection,
        Pool,
        PostgresTransaction,
        Session,
        failure,
        lost,
        unreachable,
        unreadable,
    )
    from afl.kernel.presence.postgres import SessionPresence
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("psycopg"):
        raise
    raise MissingExtraError(f"PostgreSQL needs its driver: {pip_install('postgres')}") from missing

T = TypeVar("T")
Q = queries("afl.kernel.database", "sql")
POOL_SIZE = 10
ATTEMPTS = 5
PREPARE_THRESHOLD = 1  # a statement is prepared when a session runs it for the second time
PREPARED_MAX = 1000
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Statements are few, small and prepared, and their plans are kept: a plan made while a table was empty would scan all
# of the grown one until the server analyzes it. So scans go by an index, in its order: a bitmap has to be complete
# before the first row comes out of it, though a page of rows was asked for. `tests/contract/*_reads.py` count the rows
# that are read; without these settings a claim and a turn read the whole table. A plan with a disabled scan looks
# expensive enough to be compiled, hence `jit`.
_PLANNING = (
    "set plan_cache_mode = force_generic_plan; set jit = off;"
    " set enable_seqscan = off; set enable_bitmapscan = off"
)
_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "agentflow",
    # Notice within half a minute that the server's machine is gone: while nothing is under way by keepalives, which the
    # kernel does not send as long as sent data is not acknowledged; then by the time limit (milliseconds) for that.
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


_ALWAYS = {"client_encoding": "UTF8"}  # as JSON is; a server's or a URL's own would be another


class PostgresDatabase(Database):
    """Pooled connections for transitions; `new_connection` gives one outside the pool."""

    dialect = "postgres"

    def __init__(self, url: str) -> None:
        self.name = safe_url(url)
        self._settings = _settings(url, self.name)
        self.pooled = True  # until it is known: settings of a pooler's session would reach other clients
        self._pool = Pool(self.new_connection, POOL_SIZE)
        self._pool.add(self._first_connection())
        self._presence = SessionPresence(self)
        super().__init__(url)

    def __repr__(self) -> str:
        return f"<PostgresDatabase {self.name}>"

    @property
    def presence(self) -> Presence:
        return self._presence

    def new_connection(self) -> Connection:
        """A connection of the caller's own in autocommit, for LISTEN and locks; the caller closes it."""
        try:
            connection = psycopg.connect(**self._settings, autocommit=True, row_factory=dict_row)
        except psycopg.Error as error:
            raise unreachable(error, self.name) from error
        connection.prepare_threshold = None
        connection.prepared_max = PREPARED_MAX
        # One type for every number: a statement is prepared once, and beside a small constant no number is too large.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(tuple, ListDumper)
        try:
            if not self.pooled:
                _set_up(connection)
        except psycopg.Error as error:  # the server went away between its greeting and the first statement
            connection.close()
            raise unreachable(error, self.name) from error
        return connection

    def ensure(self, schema: Schema) -> None:
        ensure(self, schema)

    def now(self) -> int:
        now: int = self.select(Q.now)[0]["now"]
        return now

    def wall_clock(self) -> int:
        return self.now()

    def atomic(self, query: Query, /, *, durable: bool = True, **params: Any) -> list[Row]:
        """One statement in one round trip; it is its own transaction."""
        return self._single(query, params, repeat_if_lost=False)

    def select(self, query: Query, /, **params: Any) -> list[Row]:
        """One statement in one round trip. Reading twice does no harm, so a lost connection is replaced."""
        return self._single(query, params, repeat_if_lost=True)

    def _read(self, work: Callable[[Transaction], T]) -> T:
        return self._repeat(lambda session: self._transact(session, _READ, work))

    def _write(self, work: Callable[[Transaction], T], durable: bool) -> T:
        return self._repeat(lambda session: self._transact(session, _WRITE, work))

    def _close(self) -> None:
        self._presence.close()
        self._pool.close()

    def _after_fork(self) -> None:
        self._presence.forked()
        self._pool.forked()

    def _single(self, query: Query, params: dict[str, Any], *, repeat_if_lost: bool) -> list[Row]:
        """A statement that is a transaction of its own."""

        def attempt(session: Session) -> list[Row]:
            try:
                return session.all(query, params)
            except (psycopg.Error, UnicodeEncodeError) as error:
                problem = failure(error, f"query {query.name}", self.name)
                is_lost = lost(error, session.connection)
                if isinstance(error, TRY_AGAIN) or (is_lost and repeat_if_lost):
                    raise _AgainError(problem, error) from error
                raise (_unknown_outcome(self.name) if is_lost else problem) from error

        thread = self._enter()
        try:
            return self._repeat(attempt)
        finally:
            self._inside.discard(thread)

    def _repeat(self, attempt: Callable[[Session], T]) -> T:
        """Run it on a session of the pool, and again after a deadlock or a lost connection."""
        for tried in range(1, ATTEMPTS + 1):
            session = self._pool.take()
            try:
                return attempt(session)
            except _AgainError as again:
                if isinstance(again.reason, STALE | READ_ONLY):
                    session.connection.close()
                    self._pool.discard()
                if tried == ATTEMPTS:
                    raise again.problem from again.reason
            finally:
                self._pool.give(session)
            time.sleep(
                random.uniform(0, 0.01 * 2**tried)
            )  # a random time, so that two in a deadlock do not meet again
        raise AssertionError("unreachable")

    def _transact(self, session: Session, begin: str, work: Callable[[Transaction], T]) -> T:
        tx = PostgresTransaction(session, self.name, begin, only_reads=begin is _READ)
        try:
            result = work(tx)
            tx.check()
            if begin is _WRITE:
                self._commit(session.connection, tx)
        except _AgainError:
            raise
        except Exception as error:
            if tx.again:
                raise _AgainError(error, error.__cause__) from error
            raise
        finally:
            tx.end()
        if begin is _READ:
            with suppress(psycopg.Error):  # the rows are read already
                session.connection.commit()
        return result

    def _commit(self, connection: Connection, tx: PostgresTransaction) -> None:
        try:
            tx.commit()
        except psycopg.Error as error:
            if isinstance(error, TRY_AGAIN):
                raise _AgainError(failure(error, "commit", self.name), error) from error
            if lost(error, connection):
                raise _unknown_outcome(self.name) from error
            raise failure(error, "commit", self.name) from error

    def _first_connection(self) -> Connection:
        """A connection, by which it is known whether there is a pooler in between: the process ids differ then."""
        connection = self.new_connection()
        try:
            row = connection.execute("select pg_backend_pid() as pid").fetchone()
            self.pooled = row is None or row["pid"] != connection.info.backend_pid
            if not self.pooled:
                _set_up(connection)
        except psycopg.Error as error:
            connection.close()
            raise unreachable(error, self.name) from error
        return connection


def _set_up(connection: Connection) -> None:
    """For a session that no other client gets."""
    connection.prepare_threshold = PREPARE_THRESHOLD
    connection.execute(_PLANNING)


class _AgainError(Exception):
    """The server rolled the transaction back, or the connection was lost before the commit: run it again."""

    def __init__(self, problem: Exception, reason: BaseException | None) -> None:
        super().__init__(str(problem))
        self.problem, self.reason = problem, reason


def _unknown_outcome(store: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the connection to {store} was lost during a commit; it may or may not have taken effect, "
        "so look before you repeat it"
    )


def _settings(url: str, name: str) -> dict[str, Any]:
    given = _parse(url)
    if given is None:
        raise unreadable(name)
    return {**_DEFAULTS, **given, **_ALWAYS}


def _parse(url: str) -> dict[str, Any] | None:
    """The parts of the URL. A bare slash in a password makes the driver read parts of it as port and database."""
    try:
        given = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError:
        return None
    ports = str(given.get("port", "5432")).split(",")
    misread = "@" in str(given.get("dbname", "")) or not all(port.isdigit() or not port for port in ports)
    return None if misread else given
