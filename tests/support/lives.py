"""Processes that die at a chosen commit, without processes: each life has its own owner and throws all memory away."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn, TypeVar

from afl.kernel.database import Database, Query, Row, Schema, Transaction, connect
from afl.kernel.errors import StoreError, StoreUnavailable
from afl.kernel.presence import Life, Presence, Process
from afl.runtime.postgres_store import FUNCTIONS, PostgresStore
from afl.runtime.stores.sql_store import SqlStore
from support.kept_memory import give_back, take_memory

T = TypeVar("T")
_DEPTH = 8  # of the lines that tell a place; those above them are the ways into the engine
_ENGINE = str(Path("afl", "runtime"))


class Crash(BaseException):
    """The process is gone. Nothing in the engine may catch this."""


@dataclass(frozen=True)
class Death:
    """Dying at the n-th write (counted from 1), before or after it took effect."""

    write: int
    after: bool


@dataclass(frozen=True)
class Outage:
    """The n-th read (counted from 1) fails, and nothing else: the process lives."""

    read: int

    def strikes(self, reads: int) -> bool:
        """Whether the read with this number fails."""
        return reads == self.read


Place = tuple[tuple[CodeType, int], ...]  # the lines of the engine that led to a read


class Outages:
    """Each place in the engine that reads fails so many times: one read of a life, which is not ended by that."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._met: Counter[Place] = Counter()

    def strikes(self, reads: int) -> bool:
        """Whether this read fails."""
        place = _place()
        self._met[place] += 1
        return self._met[place] <= self._times

    @property
    def places(self) -> int:
        """How many places there were so far."""
        return len(self._met)


def _place() -> Place:
    """Where the read of the caller's caller comes from."""
    found, frame = [], sys._getframe(2)
    while frame.f_back is not None and len(found) < _DEPTH:
        frame = frame.f_back
        if _ENGINE in frame.f_code.co_filename:
            found.append((frame.f_code, frame.f_lineno))
    return tuple(found)


class Succession(Presence):
    """Lives follow each other: those before are dead, which is proven or only shows in leases that end."""

    def __init__(self, number: int, *, proven: bool) -> None:
        self._number = number
        self._proven = proven

    @property
    def id(self) -> str:
        return f"life-{self._number}"

    def proof(self, owner: str) -> Life:
        if owner == self.id:
            return Life.ALIVE
        return Life.DEAD if self._proven else Life.UNKNOWN

    def process(self, owner: str) -> Process | None:
        return None

    def close(self) -> None:
        pass

    def forked(self) -> None:
        pass


class Lifespan:
    """The writes of one life, up to the one it dies at. A dead process uses nothing any more."""

    def __init__(self, death: Death | None) -> None:
        self._death = death
        self._thread = threading.get_ident()
        self.writes = 0
        self.dead = False

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is the life's own thread, whose reads and writes come in a certain order."""
        return threading.get_ident() == self._thread

    def write(self, effect: Callable[[], T], wrote: Callable[[T], bool] = lambda result: result != []) -> T:
        """One write, which the life may die at. One that finds nothing to write, as a claim may, is none."""
        if not self.is_own_thread:
            return self._beside(effect)
        self.go_on()
        death = self._death
        if death is not None and not death.after and self.writes + 1 == death.write:
            self._die()
        result = effect()
        self.writes += wrote(result)
        if death is not None and self.writes == death.write:
            self._die()
        return result

    def _die(self) -> NoReturn:
        self.dead = True
        raise Crash

    def _beside(self, effect: Callable[[], T]) -> T:
        """A lease is renewed by another thread: at no certain time, so that is not a write to die at."""
        if self.dead:
            raise StoreError("this life is over")
        return effect()

    def go_on(self) -> None:
        """Nothing, if this life goes on."""
        if self.dead:
            raise Crash


class MortalDatabase:
    """A database as one life sees it."""

    def __init__(
        self,
        database: Database,
        presence: Presence,
        end: Death | Outage | Outages | None,
        ensured: set[Schema],
    ) -> None:
        self._database = database
        self._ensured = ensured
        self.presence = presence
        self._life = Lifespan(end if isinstance(end, Death) else None)
        self._outage = None if isinstance(end, Death) else end
        self.reads = 0

    @property
    def writes(self) -> int:
        """How many writes there were so far."""
        return self._life.writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def ensure(self, schema: Schema) -> None:
        """The tables are looked for by the first life that has this database open."""
        if schema not in self._ensured:
            self._database.ensure(schema)
            self._ensured.add(schema)

    def select(self, query: Query, /, **params: Any) -> list[Row]:
        self._life.go_on()
        if self._life.is_own_thread:
            self.reads += 1
            if self._outage is not None and self._outage.strikes(self.reads):
                self._outage = None
                raise StoreUnavailable("the store is away for a moment")
        return self._database.select(query, **params)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self._life.write(lambda: self._database.write(work))

    def execute(self, query: Query, /, **params: Any) -> int:
        return self._life.write(lambda: self._database.execute(query, **params))

    def atomic(self, query: Query, /, **params: Any) -> list[Row]:
        return self._life.write(lambda: self._database.atomic(query, **params))


_RUNS_END = Query.of("update afl_runs set lease_until = 1 where owner <> ''")
_TASKS_END = Query.of("update afl_tasks set lease_until = 1 where state = 'running'")


def end_leases(database: Database) -> None:
    """Time passes: whatever dead processes held has run out."""
    database.atomic(_RUNS_END)
    database.atomic(_TASKS_END)


class PostgresLife(PostgresStore):
    """The PostgreSQL store over a database that is there."""

    def __init__(self, database: Database) -> None:
        SqlStore.__init__(self, database)
        database.ensure(FUNCTIONS)


class Lives:
    """One store through many lives. With a file every life opens it anew; memory and a server are there for all."""

    def __init__(
        self, url: str = "memory://", *, proven: bool = True, kind: type[SqlStore] = SqlStore
    ) -> None:
        self._url = url
        self._kind = kind
        self._proven = proven
        self._number = 0
        self._database = take_memory() if url == "memory://" else connect(url)
        self._ensured: set[Schema] = set()
        self._opened: list[MortalDatabase] = []

    @property
    def first(self) -> MortalDatabase:
        """The database as the first life saw it."""
        return self._opened[0]

    def next(self, end: Death | Outage | Outages | None = None) -> SqlStore:
        """The store as the next life opens it."""
        if self._number and self._url.startswith("sqlite:"):
            self._database.close()
            self._database = connect(self._url)
            self._ensured = set()
        self._number += 1
        presence = Succession(self._number, proven=self._proven)
        database = MortalDatabase(self._database, presence, end, self._ensured)
        self._opened.append(database)
        store = self._kind(database)  # type: ignore[arg-type]
        if not self._proven:
            end_leases(self._database)
        return store

    def end(self) -> None:
        if self._url == "memory://":
            give_back(self._database)
        else:
            self._database.close()
