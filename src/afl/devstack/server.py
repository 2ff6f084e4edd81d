"""What every local server has in common: it is prepared, launched, waited for and stopped in one way.

`Server` holds the policy; a subclass says only how its program is called and how it shows that it is ready.
"""

from __future__ import annotations

import shutil
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from afl.devstack.binaries import Program
from afl.devstack.process import Command, ProcessMark, launch
from afl.kernel.errors import InputError, ServerError
from afl.kernel.private_files import make_private_file, make_private_folder

_ATTEMPTS = 5
_TAIL_LINES = 20
_POLL_SECONDS = 0.01
_PORT_TAKEN = "address already in use"


class Server(ABC):
    """One server with its data in `home`, listening on the loopback address only."""

    name: ClassVar[str]
    program: ClassVar[Program]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    start_seconds: ClassVar[float] = 60.0
    stop_seconds: ClassVar[float] = 20.0

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.log = home / "server.log"

    @property
    def known(self) -> bool:
        """Whether a server was ever started here; if not, the folder of that name is none of ours."""
        return self.log.exists()

    @abstractmethod
    def command(self, port: int) -> Command:
        """How the program is called so that it listens on this port."""

    @abstractmethod
    def ready_port(self, pid: int, port: int) -> int | None:
        """The port once the process `pid`, and no other that took its port, answers there; None before."""

    @abstractmethod
    def url(self, port: int) -> str:
        """Where clients connect."""

    def prepare(self, previous: ProcessMark | None) -> None:
        """Make the data folder; `previous` is the server that ran on it before and is proven dead."""
        make_private_folder(self.data)

    def free_port(self) -> int:
        """A port nobody listens on now; somebody may take it before the server does, hence the attempts."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def start(
        self, port: int | None, previous: ProcessMark | None, record: Callable[[int, ProcessMark], None]
    ) -> int:
        """Start the server on `port` if it is free, else on another; returns the port when it is ready.

        `record` is called with the port and the process before the program runs.
        """
        self.program.find()  # first of all: a missing wheel leaves no folders behind
        self._take_home()
        self.prepare(previous)
        for attempt in range(_ATTEMPTS):
            chosen = port if port and attempt == 0 and _is_free(port) else self.free_port()
            before = self.log.stat().st_size
            mark = launch(self.command(chosen), self.log, partial(record, chosen))
            try:
                return self.wait_ready(mark, chosen)
            except ServerError:
                if _PORT_TAKEN not in self._log_since(before).lower():
                    raise
        raise self.failure(f"found no free port in {_ATTEMPTS} attempts")

    def _take_home(self) -> None:
        make_private_folder(self.home)
        if self.known:
            self.log.replace(self.log.with_suffix(".previous.log"))
        elif any(self.home.iterdir()):
            raise InputError(f"{self.home} holds something else: choose another folder for local servers")
        make_private_file(self.log)

    def wait_ready(self, mark: ProcessMark, port: int) -> int:
        """The port once the server answers; a server that does not is ended and its log shown."""
        deadline = time.monotonic() + self.start_seconds
        while mark.alive:
            bound = self.ready_port(mark.pid, port)
            if bound is not None:
                return bound
            if time.monotonic() > deadline:
                self.stop(mark)
                raise self.failure(f"was not ready within {self.start_seconds:.0f} s")
            time.sleep(_POLL_SECONDS)
        raise self.failure("ended while it started")

    def stop(self, mark: ProcessMark) -> None:
        """Stop the server; it is killed when it takes too long."""
        if not mark.end(self.stop_signal, self.stop_seconds):
            raise self.failure(f"(process {mark.pid}) does not end, not even when killed")

    def remove(self) -> None:
        """Delete everything the server wrote; it must be stopped."""
        if self.known:
            shutil.rmtree(self.home)

    def failure(self, what: str) -> ServerError:
        """An error that shows the end of the log, where the server itself says what was wrong."""
        lines = self._log_since(0).splitlines()[-_TAIL_LINES:]
        tail = "\n".join(f"    {line}" for line in lines) or "    (empty)"
        return ServerError(f"The local {self.name} server {what}. The end of {self.log}:\n{tail}")

    def _log_since(self, offset: int) -> str:
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[offset:].decode(errors="replace")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: without it a port whose old connections linger would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
