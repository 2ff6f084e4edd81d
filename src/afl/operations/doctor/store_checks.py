"""Findings of the doctor, and the checks of what a store holds: versions of tables, rows, leases, clocks."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from afl.kernel import schedule
from afl.kernel.clock import wall_ms
from afl.kernel.database import Database, Schema
from afl.kernel.database.migration import stored_versions
from afl.kernel.presence import Life
from afl.operations.work.workers import Liveness, servers
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI, RunFilter, TaskFilter
from afl.runtime.persistence.inspection import OrphanKind
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.stores.sql_store import alerts, tables, usage_tables
from afl.turns.store.tables import SCHEMAS as TURNS


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"  # worth knowing
    WARNING = "warning"  # it works, and may hurt one day
    ERROR = "error"  # work is lost, refused or stands still


@dataclass(frozen=True)
class Finding:
    """What a check found: `text` says what is so, `remedy` what to do about it."""

    check: str
    level: Level
    text: str
    remedy: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether somebody should do something."""
        return self.level in (Level.WARNING, Level.ERROR)


def fine(check: str, text: str) -> list[Finding]:
    """Nothing is wrong."""
    return [Finding(check, Level.OK, text)]


def note(check: str, text: str, remedy: str = "") -> list[Finding]:
    """Nothing is wrong, and somebody may want to know."""
    return [Finding(check, Level.NOTE, text, remedy)]


def warning(check: str, text: str, remedy: str) -> list[Finding]:
    """It works, and may hurt one day."""
    return [Finding(check, Level.WARNING, text, remedy)]


def error(check: str, text: str, remedy: str) -> list[Finding]:
    """Something does not work."""
    return [Finding(check, Level.ERROR, text, remedy)]


_EVERYWHERE = (tables.SCHEMA, usage_tables.SCHEMA, alerts.SCHEMA, schedule.SCHEMA, *TURNS)
_NEWER = "Update AgentFlow on this machine to the version that wrote the store."
_OLDER = "The next process that works on the store brings it forward. Make a backup, and stop older processes before."


def tables_fit(database: Database) -> list[Finding]:
    """Versions of all parts that are in the store; nothing is brought forward by looking."""
    stored = stored_versions(database)
    if not stored:
        return note("tables", "the store has no tables yet; the first process that works on it makes them")
    wanted = {each.name: each.version for each in _known(stored)}
    found: list[Finding] = []
    for name, version in sorted(stored.items()):
        expected = wanted.get(name, version)
        text = f"the tables of {name} have version {version}, this AgentFlow knows {expected}"
        if version > expected:
            found += error("tables", text, _NEWER)
        elif version < expected:
            found += warning("tables", text, _OLDER)
    return found or fine("tables", f"the tables of {', '.join(sorted(stored))} are up to date")


def _known(stored: Mapping[str, int]) -> list[Schema]:
    found = list(_EVERYWHERE)
    if "presence" in stored:  # on PostgreSQL alone, whose driver its module needs
        found.append(importlib.import_module("afl.kernel.presence.postgres").SCHEMA)
    if "runtime-functions" in stored:
        found.append(importlib.import_module("afl.runtime.postgres_store").FUNCTIONS)
    return found


_MOST = 10_000
_GRACE_MS = 60_000  # a lease that ended just now is not worth a word
_SKEW_MS = 2_000
_LOCAL_SKEW_MS = (
    60_000  # an SQLite store counts the time since this machine booted: a corrected clock does no harm
)
_PATIENCE_SECONDS = 5.0
_LOST = "Rows are missing: restore the store from a backup, or end the run with `afl cancel`."
_ORPHANS = {
    OrphanKind.TASK_RUN: (Level.ERROR, "open tasks whose run is not in the store", _LOST),
    OrphanKind.TASK_STEP: (Level.ERROR, "open tasks whose step is not in the store", _LOST),
    OrphanKind.TASK_FLOW: (
        Level.WARNING,
        "open tasks whose flow is not in the store",
        "Publish the flow again (`afl flows publish FILE`), or cancel their runs.",
    ),
    OrphanKind.STEP_RUN: (
        Level.WARNING,
        "steps whose run is not in the store",
        "They do no harm; restore the store from a backup if the run is missed.",
    ),
    OrphanKind.RUN_PROGRAM: (Level.ERROR, "runs whose program is not in the store", _LOST),
    OrphanKind.RUN_STEPS: (Level.ERROR, "runs that have started but have no steps", _LOST),
}


def orphaned_rows(store: PersistenceAPI) -> list[Finding]:
    """Rows that refer to what is not there."""
    found = []
    for each in store.find_orphans():
        level, what, remedy = _ORPHANS[each.kind]
        shown = ", ".join(each.examples) + (", ..." if each.count > len(each.examples) else "")
        found.append(Finding("orphaned rows", level, f"{each.count:,} {what}: {shown}", remedy))
    return found or fine("orphaned rows", "every row has those that it refers to")


def holds_of_the_dead(store: PersistenceAPI) -> list[Finding]:
    """Tasks and runs that belong to processes that are gone."""
    held = _Held(store.now(), {})
    for task in store.find_tasks(TaskFilter(state=TaskState.RUNNING, limit=_MOST)):
        held.look(store, task)
    for run in store.find_runs(RunFilter(state=RunnerState.RUNNING, limit=_MOST)):
        held.look(store, run)
    if not held.stale:
        return fine("leases", "nothing is held by a process that is gone")
    amount = sum(held.stale.values())
    owner, _ = held.stale.most_common(1)[0]
    live = any(each.is_live for each in servers(store))
    return warning(
        "leases",
        f"{amount:,} tasks and runs are held by processes that are gone, such as {store.describe(owner)}",
        "A live worker takes them over within seconds: check again, and run `afl why` if they remain."
        if live
        else "Start a worker, `afl runner` or `afl agent`: it takes them over.",
    )


@dataclass
class _Held:
    """Who holds something without being there; what is known of an owner is asked once."""

    now: int
    lives: dict[str, Life]

    def __post_init__(self) -> None:
        self.stale: Counter[str] = Counter()

    def look(self, store: PersistenceAPI, held: TaskDefinition | RunDefinition) -> None:
        if not held.owner:
            return
        life = self.lives.get(held.owner)
        if life is None:
            life = self.lives[held.owner] = store.life(held.owner)
        ended = 0 < held.lease_until < self.now - _GRACE_MS
        if life is Life.DEAD or (life is Life.UNKNOWN and ended):
            self.stale[held.owner] += 1


def silent_servers(store: PersistenceAPI) -> list[Finding]:
    """Servers that should be working and do not say so."""
    found = servers(store)
    counts = Counter(each.liveness for each in found)
    silent = [each for each in found if each.liveness in (Liveness.HANGING, Liveness.SILENT)]
    if silent:
        return warning(
            "servers",
            f"{len(silent)} servers do not ping: {_some(each.title for each in silent)}",
            "`afl why SERVER` says what is known about it; restart one that hangs.",
        )
    words = ", ".join(f"{count} {liveness}" for liveness, count in sorted(counts.items()))
    return fine("servers", words or "no server has registered yet")


def clock_skew(store: PersistenceAPI) -> list[Finding]:
    """The store's clock decides about leases; this machine's is shown to people and fires schedules."""
    before = wall_ms()
    there = store.now()
    after = wall_ms()
    skew = there - (before + after) // 2
    is_local = isinstance(store, SqliteStore | MemoryStore)
    if abs(skew) <= (_LOCAL_SKEW_MS if is_local else _SKEW_MS) + (after - before):
        return fine("clock", f"the clocks of the store and of this machine differ by {abs(skew):,} ms")
    return warning(
        "clock",
        f"the store's clock is {abs(skew) / 1000:,.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
        "Have both set by NTP. Leases go by the store's clock alone; times that are shown, and schedules on SQLite, "
        "go by this machine's. The clock of an SQLite store follows a corrected one after the next boot.",
    )


def notifications(store: PersistenceAPI) -> list[Finding]:
    """A commit of this process, heard as another process would hear it."""
    received = store.receives_commits(_PATIENCE_SECONDS)
    if received is None:
        return note(
            "notifications",
            "commits notify only their own process: other workers poll",
            "AFL_DOORBELL=nats://... notifies them of new work at once.",
        )
    if received:
        return fine("notifications", "other processes are notified of a commit at once")
    return error(
        "notifications",
        "a commit was not heard: workers learn of new work at their poll interval only",
        "Look at AFL_DOORBELL and its server. On PostgreSQL name the server itself and not a pooler such as PgBouncer.",
    )


def _some(names: Iterable[str], most: int = 3) -> str:
    every = list(names)
    return ", ".join(every[:most]) + (", ..." if len(every) > most else "")


CHECKS = (orphaned_rows, holds_of_the_dead, silent_servers, clock_skew, notifications)
