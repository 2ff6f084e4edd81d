"""Processes that outlive us, told apart from others that later get the same number.

A process id alone proves nothing: after a crash or a reboot it may belong to somebody else. A `ProcessMark`
is the id together with the moment the process started, so a signal only reaches the one it was meant for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from afl.kernel.private_files import open_private

_POLL_SECONDS = 0.01
_KILL_SECONDS = 10.0

# The inner shell waits for one line before it becomes the server, so the parent can write down who it is
# first: if the parent dies in between, `read` sees the end of the pipe and nothing is left running. The outer
# shell ends at once, which makes the server nobody's child: it survives the command that started it.
_GATE = 'exec 3<&0; (read -r go <&3 && exec "$@" 3<&- >&2) & echo $!'


@dataclass(frozen=True)
class Command:
    """What to run: arguments, and the user to become (None: stay who we are)."""

    argv: tuple[str, ...]
    user: int | None = None


@dataclass(frozen=True)
class ProcessMark:
    """One process and no other: its id, and when it started (opaque, unique across reboots)."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessMark | None:
        """The mark of the process that has this id now; None when there is none (a zombie counts as none)."""
        started = _started_linux(pid) if sys.platform == "linux" else _started_ps(pid)
        return cls(pid, started) if started else None

    @classmethod
    def current(cls) -> ProcessMark:
        """The mark of this process."""
        mark = cls.of(os.getpid())
        assert mark is not None
        return mark

    @property
    def alive(self) -> bool:
        return ProcessMark.of(self.pid) == self

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to this very process; False when it is gone already."""
        try:
            with _pinned(self.pid) as send:
                if not self.alive:
                    return False
                send(number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, seconds: float) -> bool:
        """True once the process has ended, False when it still lives after that many seconds."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def end(self, number: signal.Signals, seconds: float) -> bool:
        """Ask the process to end, then insist; True when it has ended."""
        self.send(number)
        if self.wait(seconds):
            return True
        self.send(signal.SIGKILL)
        return self.wait(_KILL_SECONDS)


def launch(command: Command, log: Path, record: Callable[[ProcessMark], None]) -> ProcessMark:
    """Start a detached process whose output goes to `log`; `record` is called before it runs anything."""
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as output:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", _GATE, "sh", *command.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd="/",
            start_new_session=True,
            **_identity(command.user),
        )
    with shell:
        assert shell.stdin is not None and shell.stdout is not None
        mark = ProcessMark.of(int(shell.stdout.readline()))
        if mark is None:
            raise ProcessLookupError(f"{command.argv[0]} ended before it was started")
        record(mark)
        shell.stdin.write(b"go\n")
    return mark


def run(command: Command, log: Path, stdin: Path = Path(os.devnull)) -> int:
    """Run a command to its end, its output added to `log`; returns its exit status.

    It inherits the lock of the stack: should we be killed, nobody touches its folder before it has ended.
    """
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as output, stdin.open("rb") as given:
        return subprocess.run(
            command.argv,
            stdin=given,
            stdout=output,
            stderr=output,
            cwd="/",
            check=False,
            close_fds=False,
            **_identity(command.user),
        ).returncode


@contextmanager
def _pinned(pid: int) -> Iterator[Callable[[signal.Signals], None]]:
    """Sends signals to the process that has this id now, even if the id passes to another meanwhile."""
    if sys.platform != "linux":
        yield partial(os.kill, pid)
    else:
        descriptor = os.pidfd_open(pid)
        try:
            yield partial(signal.pidfd_send_signal, descriptor)
        finally:
            os.close(descriptor)


def _identity(user: int | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def _started_linux(pid: int) -> str | None:
    try:
        # The command's name may hold spaces and brackets; the fields after it cannot.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # While other threads of a killed process still end, its files and ports are not free yet.
    gone = fields[0] in "ZX" and int(fields[17]) <= 1
    return None if gone else f"{boot}:{fields[19]}"


def _started_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()
