"""A stack: real servers in one folder, started by any process and stopped by any other."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from afl.devstack.postgres import Postgres
from afl.devstack.process import Command, ProcessMark, launch
from afl.devstack.server import Server
from afl.devstack.servers import Mongo, Nats, Valkey
from afl.devstack.state import Entry, State, StateFile
from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.kernel.ids import random_id
from afl.kernel.near_names import near_name

SERVERS: dict[str, type[Server]] = {kind.name: kind for kind in (Postgres, Valkey, Nats, Mongo)}
DEFAULT_SERVICES = ("postgres", "redis", "nats")
DEFAULT_FOLDER = Path(".afl/servers")
_WATCHDOG_SECONDS = 5.0


@dataclass(frozen=True)
class ServerStatus:
    """One server of a stack, for display. `died`: it was started, never stopped, and is gone."""

    service: str
    state: Literal["running", "starting", "stopped", "died"]
    url: str | None
    pid: int | None
    since_ms: int | None
    folder: Path
    log: Path


class Stack:
    """The servers of one folder. With an `owner` they end, and the folder goes, when that process does."""

    def __init__(self, folder: Path | str, owner: ProcessMark | None = None) -> None:
        self.folder = Path(folder).absolute()
        self.owner = owner
        self._file = StateFile(self.folder)

    def up(self, services: Iterable[str] = DEFAULT_SERVICES) -> dict[str, str]:
        """Start what does not run yet; the URL of each service asked for, once all are ready."""
        servers = [self._server(name) for name in services]
        for server in servers:
            server.program.find()  # before the first starts: one that is not installed leaves no others running
        with self._file.locked():
            state = self._file.read()
            self._guard(state)
            return {server.name: self._ensure(server, state) for server in servers}

    def down(self, *, remove: bool = False) -> list[str]:
        """Stop every server; the names of those that ran. With `remove` their data is deleted as well."""
        if not self._file.path.exists():
            return []  # no stack: nothing in that folder is ours to touch
        with self._file.locked():
            state = self._file.read()
            stopped = [name for name, entry in list(state.servers.items()) if self._stop(name, entry, state)]
            self._unguard(state)
            if remove:
                self._remove()
        return stopped

    def status(self) -> list[ServerStatus]:
        """Every server that was ever started here."""
        state = self._file.read()
        known = [name for name in SERVERS if self._server(name).known]
        return [self._status(name, state.servers.get(name)) for name in known]

    def _server(self, name: str) -> Server:
        kind = SERVERS.get(name)
        if kind is None:
            near = near_name(name, SERVERS)
            hint = f"; did you mean {near}?" if near else ""
            raise InputError(f"There is no local server {name!r}, only {', '.join(SERVERS)}{hint}")
        return kind(self.folder / name)

    def _ensure(self, server: Server, state: State) -> str:
        entry = state.servers.get(server.name)
        if entry is None or not entry.mark.alive:
            self._start(server, state, entry)
        elif entry.url is None:
            # Whoever started it died while waiting for it.
            self._ready(server, state, server.wait_ready(entry.mark, entry.port))
        url = state.servers[server.name].url
        assert url is not None
        return url

    def _start(self, server: Server, state: State, old: Entry | None) -> None:
        def record(port: int, mark: ProcessMark) -> None:
            state.servers[server.name] = Entry(mark, port, wall_ms())
            self._file.write(state)

        port = server.start(state.ports.get(server.name), old.mark if old else None, record)
        self._ready(server, state, port)

    def _ready(self, server: Server, state: State, port: int) -> None:
        state.servers[server.name].url = server.url(port)
        state.ports[server.name] = port
        self._file.write(state)

    def _stop(self, name: str, entry: Entry, state: State) -> bool:
        ran = entry.mark.alive
        self._server(name).stop(entry.mark)
        del state.servers[name]
        self._file.write(state)
        return ran

    def _status(self, name: str, entry: Entry | None) -> ServerStatus:
        server = self._server(name)
        if entry is None:
            return ServerStatus(name, "stopped", None, None, None, server.home, server.log)
        if not entry.mark.alive:
            return ServerStatus(name, "died", None, None, entry.since_ms, server.home, server.log)
        state: Literal["running", "starting"] = "running" if entry.url else "starting"
        return ServerStatus(name, state, entry.url, entry.mark.pid, entry.since_ms, server.home, server.log)

    def _guard(self, state: State) -> None:
        """Before the first server: see to it that the watchdog runs which ends them with their owner."""
        if self.owner is None or (state.watchdog is not None and state.watchdog.alive):
            return

        def record(mark: ProcessMark) -> None:
            state.watchdog = mark
            self._file.write(state)

        arguments = (str(self.folder), str(self.owner.pid), self.owner.started)
        argv = (sys.executable, "-P", "-m", "afl.devstack.watchdog", *arguments)
        launch(Command(argv), self._file.log, record)

    def _unguard(self, state: State) -> None:
        watchdog, state.watchdog = state.watchdog, None
        self._file.write(state)
        # The watchdog calls this itself when the owner died, and must not end before its work does.
        if watchdog is not None and watchdog.pid != os.getpid():
            watchdog.end(signal.SIGTERM, _WATCHDOG_SECONDS)

    def _remove(self) -> None:
        for name in SERVERS:
            self._server(name).remove()
        self._file.remove()


def up(folder: Path | str = DEFAULT_FOLDER, services: Iterable[str] = DEFAULT_SERVICES) -> dict[str, str]:
    """Start servers that survive this process; starting those that already run changes nothing."""
    return Stack(folder).up(services)


def down(folder: Path | str = DEFAULT_FOLDER, *, remove: bool = False) -> list[str]:
    """Stop the servers of a folder, whoever started them; the names of those that ran."""
    return Stack(folder).down(remove=remove)


def status(folder: Path | str = DEFAULT_FOLDER) -> list[ServerStatus]:
    """Every server that was ever started in a folder."""
    return Stack(folder).status()


@contextmanager
def temporary_stack(folder: Path | str | None = None) -> Iterator[Stack]:
    """A stack that ends with this block, or with this process however it dies; its folder is deleted."""
    stack = Stack(folder or f"{tempfile.gettempdir()}/afl-stack-{random_id()}", owner=ProcessMark.current())
    try:
        yield stack
    finally:
        stack.down(remove=True)
