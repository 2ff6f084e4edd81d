"""Time skipping: a test does not wait for timers, retries, deadlines and schedules.

While a test waits for a result, and nothing can be done at the present time, the store's clock is set to the next time
at which something can. So everything keeps its order, and a year passes in milliseconds. Leases move along: whoever
holds something has it for as long as before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache

from afl.kernel.clock import wall_ms
from afl.kernel.database import Query, Transaction, queries
from afl.kernel.errors import CapabilityError, InputError, StoreUnavailable
from afl.kernel.joinable_thread import JoinableThread
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import ELSEWHERE_TOPIC, tasks_topic
from afl.runtime.recovery.sweep import fire_timers, reclaim
from afl.runtime.schedules import WorkflowSchedules
from afl.runtime.stores.sql_store import SqlStore

Q = queries("afl.testing", "sql")
_LOOK_SECONDS = 0.004
_MOVED = (Q.move_tasks, Q.move_locks, Q.move_servers)


class TimeSkipping:
    """The clock of a store for tests; the fixture `afl_time` is the one of `flow`."""

    def __init__(self, store: PersistenceAPI) -> None:
        if not isinstance(store, SqlStore):
            raise CapabilityError("time can be skipped on SQLite and PostgreSQL")
        if not store.database.select(Q.can_skip):
            raise CapabilityError("time can be skipped only in a store that afl.testing has made")
        self._store = store
        self._evaluator = Evaluator(store)
        self._schedules = WorkflowSchedules(store)
        self._guard = threading.Lock()
        self._waiters = 0
        self._thread: JoinableThread | None = None
        self._problem: BaseException | None = None

    def now(self) -> datetime:
        """The time in the store."""
        return datetime.fromtimestamp(self._store.database.wall_clock() / 1000, UTC)

    def advance(self, *, timeout: float = 60, **duration: float) -> None:
        """Let this much time pass (`days=1`, `hours=2`: as for timedelta), with all that comes due in it, in order.

        Returns when nothing more can be done at the new time; TimeoutError if that takes longer than `timeout` seconds,
        as it does when no worker is there.
        """
        until = time.monotonic() + timeout
        length = timedelta(**duration)
        if length < timedelta(0):
            raise InputError(f"time can be advanced, not set back; got {length}")
        target = self._store.now() + round(length / timedelta(milliseconds=1))
        while (left := target - self._store.now()) > 0 or self._busy():
            if time.monotonic() > until:
                raise TimeoutError(f"time could not be advanced within {timeout} s: {self._busy() or 'busy'}")
            if not self._skip(longest=max(left, 0)):
                time.sleep(_LOOK_SECONDS)

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Skip time whenever nothing can be done, while the block lasts. `flow` does so while it waits for a result."""
        with self._guard:
            self._waiters += 1
            if self._thread is None:
                self._thread = JoinableThread(self._work, "afl-time-skipping")
                self._thread.start()
        try:
            yield
        finally:
            with self._guard:
                self._waiters -= 1
                ended, self._thread = (self._thread, None) if not self._waiters else (None, self._thread)
            if ended is not None:
                ended.join()
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def _work(self) -> None:
        try:
            while self._waiters:
                if not self._skip():
                    time.sleep(_LOOK_SECONDS)
        except BaseException as error:
            self._problem = error

    def _busy(self) -> str:
        """What is under way or could be, in words; empty if nothing is."""
        rows = self._store.database.select(Q.busy)
        return str(rows[0]["reason"]) if rows else ""

    def _skip(self, longest: int | None = None) -> bool:
        """Go to the next time at which something is due, and let it happen; False if there is none, or no need."""
        if self._busy():
            return False
        self._let_happen()  # what is due by now
        if not self._move(longest):
            return False
        self._let_happen()
        return True

    def _move(self, longest: int | None) -> bool:
        """Set the clock forward, unless somebody has something to do by now."""

        def move(tx: Transaction) -> bool:
            tx.run(Q.exclude_writers)
            waits = [] if longest is None else [longest]
            waits += _waits(tx)
            if not waits or min(waits) <= 0 or tx.all(Q.busy):
                return False
            leases = [_move_leases(row["name"]) for row in tx.all(Q.leased_tables)]
            for query in (*_MOVED, *leases, Q.skip):
                tx.run(query, ms=min(waits))
            return True

        try:
            return self._store.database.write(move, durable=False)
        except StoreUnavailable:  # somebody writes
            return False

    def _let_happen(self) -> None:
        fire_timers(self._evaluator)
        self._schedules.fire_due()
        reclaim(self._evaluator)
        lists = [row["name"] for row in self._store.database.select(Q.due_task_lists)]
        for topic in (ELSEWHERE_TOPIC, *map(tasks_topic, lists)):
            self._store.notifier.notify(topic)


def _waits(tx: Transaction) -> list[int]:
    """In how many milliseconds tasks and schedules are due; some are only when their time has passed."""
    clock = tx.one(Q.wall_clock, machine=wall_ms())
    assert clock is not None
    rows = [tx.one(Q.next_due), tx.one(Q.next_schedule, wall=clock["wall"])]
    return [row["wait"] + 1 for row in rows if row is not None and row["wait"] is not None]


@cache
def _move_leases(table: str) -> Query:
    return Query.of(f"update {table} set lease_until = lease_until + :ms where lease_until > 0")
