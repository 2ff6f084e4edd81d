"""The one writer of an SQLite file in this process: group commit.

A commit costs the same for one transition as for fifty, so a thread that arrives while another is writing
leaves its transition in the queue. The leader runs every queued one in a savepoint of its own, commits once,
and hands the lead to the first that came later. A transition that raises loses its savepoint and nothing
else.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from threading import get_ident
from typing import Any, TypeVar

from afl.kernel.database.base import Row, Transaction
from afl.kernel.database.queries import Query
from afl.kernel.database.sqlite_transaction import SqliteTransaction, failure, is_busy, skipped_ms
from afl.kernel.errors import StoreError, StoreUnavailable
from afl.kernel.file_lock import FileLock, LockHolder, LockWait, listed_holder

T = TypeVar("T")
Work = Callable[[Transaction], Any]
Run = Callable[[sqlite3.Connection, Work], Any]  # how a transition with a commit of its own is run
MAX_GROUP = 256
_CLOSING_SECONDS = 0.5
_WAL_WRITE_LOCK = 120  # the byte of the -shm file by which SQLite lets one write


class Job:
    """A transition that waits for the leader; its signal opens when it is done, or is to lead itself."""

    __slots__ = ("context", "done", "durable", "error", "leads", "result", "signal", "thread", "work")

    def __init__(self, work: Work, thread: int, context: Context | None, *, durable: bool = True) -> None:
        self.work = work
        self.durable = durable
        self.thread = thread
        self.context = context
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = self.done = False
        self.signal = threading.Lock()
        self.signal.acquire()

    def in_its_context(self, tx: Transaction) -> Any:
        """The transition as its own thread would run it: the leader's context variables are not its."""
        return self.work(tx) if self.context is None else self.context.run(self.work, tx)

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Writer:
    """Serializes the transitions of this process, and queues with the other processes on the file's lock."""

    def __init__(self, path: str, lock: FileLock, connect: Callable[[], sqlite3.Connection]) -> None:
        self.path = path
        self.shift = 0
        self.skips_time = False
        self._lock = lock
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._durable = True
        self._mutex = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._leader: int | None = None
        self._paused = False
        self._closed = False

    def write(self, work: Callable[[Transaction], T], *, durable: bool = True) -> T:
        """What the transition returns, once it is on the disk; not `durable`: once every process sees it."""
        result: T = self._write(work, self._run_transaction, durable)
        return result

    def write_one(self, query: Query, params: dict[str, Any], *, durable: bool = True) -> list[Row]:
        """The rows of one statement that is a whole transition."""
        rows: list[Row] = self._write(lambda tx: tx.all(query, **params), self._run_statement, durable)
        return rows

    def _write(self, work: Work, run: Run, durable: bool) -> Any:
        thread = get_ident()
        queued: Job | None = None
        with self._mutex:
            if self._closed:
                raise StoreError(f"{self.path} is closed")
            if self._leader is None:
                self._leader = thread
            elif self._leader == thread:
                raise StoreError("a transaction inside a transaction: use the one your function was given")
            else:
                queued = Job(work, thread, copy_context(), durable=durable)
                self._waiting.append(queued)
        return self._lead(work, None, run, durable) if queued is None else self._wait(queued)

    def close(self) -> None:
        """End after the queued transitions, under the lock: the last close checkpoints the write-ahead log."""
        last = Job(lambda tx: None, get_ident(), None)
        with self._mutex:
            self._closed = True
            under_way = self._leader is not None
            if under_way:
                self._waiting.append(last)
        if under_way:
            last.signal.acquire()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; the next write opens another."""
        connection = self._connection
        if connection is None or connection.in_transaction:  # a process that only read need not queue
            return
        self._connection = None
        limit, self._lock.limit = self._lock.limit, min(self._lock.limit, _CLOSING_SECONDS)
        try:
            self._lock.acquire()
        except StoreUnavailable:  # its holder has the file open, so this process is not the last
            connection.close()
            return
        finally:
            self._lock.limit = limit
        try:
            connection.close()
        finally:
            self._lock.release()

    def pause(self) -> None:
        """Wait for the transitions of other threads, and let none begin."""
        thread = get_ident()
        while not self._paused:
            with self._mutex:
                if self._leader == thread:  # inside a transition, which goes on
                    return
                if self._leader is None:
                    self._leader, self._paused = thread, True
                    return
                queued = Job(lambda tx: None, thread, None)
                self._waiting.append(queued)
            queued.signal.acquire()
            self._paused = queued.leads

    def resume(self) -> None:
        """Let transitions begin again."""
        if self._paused:
            self._paused = False
            self._hand_over([])

    def forked(self) -> sqlite3.Connection | None:
        """In a forked child: reset, and return the parent's connection, which must stay open and unused."""
        inherited, self._connection = self._connection, None
        self._mutex = threading.Lock()
        self._waiting.clear()
        self._leader = None
        self._paused = False
        return inherited

    def _wait(self, job: Job) -> Any:
        try:
            job.signal.acquire()
        except BaseException:
            self._leave(job)
            raise
        if not job.leads:
            return job.outcome()
        return self._lead(job.work, job.context, self._run_transaction, job.durable)

    def _leave(self, job: Job) -> None:
        """An interrupt came while waiting: leave the queue, or wait for the end of a transition that has begun."""
        with self._mutex:
            if job in self._waiting:
                self._waiting.remove(job)
                return
        while not (job.leads or job.done):
            job.signal.acquire(timeout=0.1)
        if job.leads:
            self._hand_over([])

    def _lead(self, work: Work, context: Context | None, run: Run, durable: bool = True) -> Any:
        others: list[Job] = []
        try:
            if self._connection is not None:  # before the lock is taken: no other process waits for it
                self._synchronize(self._connection, durable)
            try:
                self._lock.acquire()
            except StoreUnavailable as error:
                others = self._refused(error)
                raise
            try:
                if self._connection is None:
                    self._connection, self._durable = self._connect(), True
                if not self._waiting:
                    self._synchronize(self._connection, durable)
                    return run(self._connection, work)
                own = Job(work, get_ident(), context)
                self._synchronize(self._connection, True)
                with self._mutex:
                    while self._waiting and len(others) < MAX_GROUP:
                        others.append(self._waiting.popleft())
                self._run_group(self._connection, [own, *others])
            finally:
                self._lock.release()
        finally:
            self._hand_over(others)
        return own.outcome()

    def _refused(self, error: StoreUnavailable) -> list[Job]:
        """The lock was not acquired: the queued transitions fail with the leader, not one by one."""
        with self._mutex:
            others, self._waiting = list(self._waiting), deque()
        for job in others:
            job.error, job.done = StoreUnavailable(str(error)), True
        return others

    def _hand_over(self, taken: list[Job]) -> None:
        """Wake the threads whose transitions are done; the first of the others leads next."""
        with self._mutex:
            if not taken and not self._waiting:
                self._leader = None
                return
            self._waiting.extendleft(job for job in reversed(taken) if not job.done)
            following = self._waiting.popleft() if self._waiting else None
            self._leader = None if following is None else following.thread
        for job in taken:
            if job.done:
                job.signal.release()
        if following is not None:
            following.leads = True
            following.signal.release()

    def _synchronize(self, connection: sqlite3.Connection, durable: bool) -> None:
        """Set whether commits are synced to the disk. The setting stays: the next write may need the same."""
        if durable != self._durable:
            self._durable = False  # after an interrupt here the next durable write sets it again
            connection.execute(f"PRAGMA synchronous = {'full' if durable else 'normal'}")
            self._durable = durable

    def _transaction(self, connection: sqlite3.Connection) -> SqliteTransaction:
        shift = self.shift + skipped_ms(connection) if self.skips_time else self.shift
        return SqliteTransaction(connection, self.path, shift)

    def _run_transaction(self, connection: sqlite3.Connection, work: Work) -> Any:
        """The common case, and so the one that must cost least: no queue, no savepoint."""
        self._begin(connection)
        tx = self._transaction(connection)
        try:
            result = work(tx)
            if tx.failed:
                tx.check()
            self._commit(connection, tx)
        except BaseException:
            self._rollback(connection)
            raise
        finally:
            tx.end()
        return result

    def _run_statement(self, connection: sqlite3.Connection, work: Work) -> Any:
        """One statement: SQLite begins and commits it by itself, which is three calls less."""
        tx = self._transaction(connection)
        wait: LockWait | None = None
        try:
            while True:
                try:
                    return work(tx)
                except StoreUnavailable as error:  # as in `_begin`
                    if not is_busy(error.__cause__):
                        raise
                    wait = self._wait_for_others(wait)
        finally:
            tx.end()

    def _run_group(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        """All in one commit; if that fails, each in its own, so that none fails because of another."""
        if self._commit_group(connection, jobs):
            return
        for job in jobs:
            try:
                job.result, job.error = self._run_transaction(connection, job.in_its_context), None
            except Exception as error:
                job.error = error
            job.done = True

    def _commit_group(self, connection: sqlite3.Connection, jobs: list[Job]) -> bool:
        self._begin(connection)
        committing = False
        try:
            for job in jobs:
                self._in_savepoint(connection, job)
                if not connection.in_transaction:  # SQLite rolled the whole transaction back: disk full, say
                    return False
            committing = True
            self._commit(connection, self._transaction(connection))
        except (sqlite3.Error, StoreError):
            committing = False
            return False
        finally:
            # An interrupt may arrive between the commit and this line: the connection knows which came first.
            committed = committing and not connection.in_transaction
            self._rollback(connection)
            for job in jobs:
                job.done = committed
        return True

    def _in_savepoint(self, connection: sqlite3.Connection, job: Job) -> None:
        connection.execute("SAVEPOINT job")
        tx = self._transaction(connection)
        try:
            job.result, job.error = job.in_its_context(tx), None
            tx.check()
        except Exception as error:
            job.error = error
            if connection.in_transaction:
                connection.execute("ROLLBACK TO job")
        finally:
            tx.end()
        if connection.in_transaction:
            connection.execute("RELEASE job")

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Our own processes queue on the lock; only another program can hold SQLite's: wait for it."""
        wait: LockWait | None = None
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise failure(error, self.path, "begin") from error
            wait = self._wait_for_others(wait)

    def _wait_for_others(self, wait: LockWait | None) -> LockWait:
        """SQLite has waited a moment for another program; StoreUnavailable at the limit."""
        wait = wait or LockWait(self.path, self._lock.limit, self._foreign_holder)
        wait.check()
        return wait

    def _foreign_holder(self) -> LockHolder | None:
        pid = listed_holder(f"{self.path}-shm", _WAL_WRITE_LOCK)
        return None if pid is None else LockHolder.of(pid)

    def _commit(self, connection: sqlite3.Connection, tx: SqliteTransaction) -> None:
        if connection is not self._connection:
            raise StoreError(
                "the process forked inside a transaction; the parent's transaction is not the child's"
            )
        tx.commit()

    def _rollback(self, connection: sqlite3.Connection) -> None:
        if connection is self._connection and connection.in_transaction:
            connection.execute("ROLLBACK")
