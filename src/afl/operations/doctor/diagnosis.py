"""All checks of what the settings name: first from outside, then of the open store, then of the servers beside it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from afl.kernel.database import Database, connect
from afl.kernel.errors import AgentFlowError, StoreReadOnly
from afl.kernel.settings import Settings
from afl.operations.doctor import sqlite_files, store_checks
from afl.operations.doctor.store_checks import Finding, Level, error, fine, note, tables_fit
from afl.operations.run.run_store import opened
from afl.operations.store_file import require_file

Begin = Callable[[str], None]
_NATS = ("nats", "tls")


@dataclass
class Diagnosis:
    """What was found so far. `begin` is told of each group of checks before it runs."""

    settings: Settings
    fix: bool = False
    quick: bool = False
    fleet_files: Sequence[Path] = ()
    begin: Begin = field(default=lambda what: None)
    _broken: bool = False

    def run(self) -> Iterator[Finding]:
        """Every finding, as it is made."""
        yield from self._store()
        yield from self._servers()
        for path in self.fleet_files:
            yield from self._fleet_file(str(path))

    def _store(self) -> Iterator[Finding]:
        kind = urlsplit(self.settings.store).scheme
        if kind == "sqlite":
            path = os.path.realpath(unquote(self.settings.store.removeprefix("sqlite:///")))
            if not os.path.exists(path):
                yield from _missing(path)
                return
            yield from self._sqlite_file(path)
        if self._broken:
            yield from note(
                "store", "not opened, so its rows are not checked: that could make the damage worse"
            )
            return
        if kind in ("sqlite", "postgresql", "postgres"):
            yield from self._database(kind)
        if not self._broken:
            yield from self._rows(kind)

    def _sqlite_file(self, path: str) -> Iterator[Finding]:
        place = sqlite_files.Place(path, self.fix, self.quick)
        for check in sqlite_files.CHECKS:
            yield from self._guarded(_name(check), partial(check, place))

    def _fleet_file(self, path: str) -> Iterator[Finding]:
        """A file of the fleet, seen from outside; its tables belong to the principal or the agent."""
        found = [each for each in self._sqlite_file(path) if each.level is not Level.OK]
        yield from [replace(each, check="fleet") for each in found] or fine(
            "fleet", f"{path}: file system, space, permissions, log and integrity are in order"
        )

    def _database(self, kind: str) -> Iterator[Finding]:
        found: list[Finding] = []
        try:
            require_file(self.settings.store)
            with closing(connect(self.settings.store)) as database:
                if kind != "sqlite":
                    found += self._guarded("server", lambda: _postgres(database))
                found += self._guarded("tables", lambda: self._tables(database))
        except AgentFlowError as problem:
            found += self._failed("store", problem)
        yield from found

    def _tables(self, database: Database) -> list[Finding]:
        found = tables_fit(database)
        # To open a store brings its tables forward, and makes them where there are none: that is not ours to do.
        self._broken |= any(each.level is not Level.OK for each in found)
        return found

    def _rows(self, kind: str) -> Iterator[Finding]:
        try:
            with opened(self.settings, create=False) as store:
                if kind.startswith("mongodb"):
                    mongo = importlib.import_module("afl.operations.doctor.mongo_server")  # needs its extra
                    yield from self._guarded("server", lambda: mongo.server(store))
                for check in store_checks.CHECKS:
                    yield from self._guarded(_name(check), partial(check, store))
        except AgentFlowError as problem:
            yield from self._failed("store", problem)

    def _servers(self) -> Iterator[Finding]:
        settings = self.settings
        if settings.redis != Settings().redis:
            yield from self._extra("redis", "redis_server", "check_redis", settings.redis)
        turns = [settings.bus] if urlsplit(settings.bus).scheme in _NATS else []
        notifiers = [settings.doorbell] if urlsplit(settings.doorbell).scheme in _NATS else []
        for url in dict.fromkeys(turns + notifiers):
            yield from self._extra("nats", "nats_server", "check_nats", url, carries_turns=url in turns)
        if settings.alerts:
            yield from self._extra("alerts", "alert_addresses", "check_alerts", settings.alerts)

    def _extra(self, what: str, module: str, name: str, url: str, **options: bool) -> list[Finding]:
        def check() -> list[Finding]:
            checks = importlib.import_module(f"afl.operations.doctor.{module}")  # needs its extra
            found: list[Finding] = getattr(checks, name)(url, **options)
            return found

        return self._guarded(what, check)

    def _guarded(self, what: str, check: Callable[[], list[Finding]]) -> list[Finding]:
        self.begin(what)
        try:
            found = check()
        except StoreReadOnly:
            return note(what, "not checked: the store is read-only here")
        except (AgentFlowError, OSError) as problem:
            return self._failed(what, problem)
        self._broken |= any(_is_damage(each) for each in found)
        return found

    def _failed(self, what: str, problem: Exception) -> list[Finding]:
        self._broken = True
        hint = problem.hint if isinstance(problem, AgentFlowError) else "Look at the disk and the rights."
        return error(what, str(problem), hint)


def _name(check: Callable[..., list[Finding]]) -> str:
    return check.__name__.replace("_", " ")


def _missing(path: str) -> list[Finding]:
    remedy = "`afl run` or `afl submit` makes it; or name another with --store."
    return error("store", f"there is no store {path} yet", remedy)


def _is_damage(found: Finding) -> bool:
    return found.level is Level.ERROR and found.check in ("integrity", "write-ahead log", "file system")


def _postgres(database: Database) -> list[Finding]:
    checks = importlib.import_module("afl.operations.doctor.postgres_server")  # needs its driver
    state = checks.server_state(database)
    found: list[Finding] = [each for check in checks.STATE_CHECKS for each in check(state)]
    return found + list(checks.pooler(database))


def diagnose(
    settings: Settings,
    *,
    fix: bool = False,
    quick: bool = False,
    fleet_files: Sequence[Path] = (),
    begin: Begin | None = None,
) -> Iterator[Finding]:
    """What is wrong with the store of the settings, the servers beside it and files of the fleet, each as it is found.

    Nothing is changed but, with `fix`, the permissions of files that other users can read.
    """
    return Diagnosis(settings, fix, quick, fleet_files, begin or (lambda what: None)).run()
