"""Waiting for a lock on a file: not for ever, and not without a word about who holds it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from afl.kernel.errors import StoreUnavailable
from afl.kernel.posix_lock import HIDDEN
from afl.kernel.setting_kinds import mask_urls

_log = logging.getLogger(__name__)

LOCK_TIMEOUT_MS = 30_000
REPORT_SECONDS = 5.0
STOPPED = "stopped"
_COMMAND_LENGTH = 200
_EAGER_SECONDS = 1.0
_EAGER_PAUSE, _PATIENT_PAUSE = 0.000_05, 0.005
_STATES = {
    "R": "running",
    "S": "sleeping",
    "I": "idle",
    "D": "waiting for its disk",
    "U": "waiting for its disk",
    "T": STOPPED,
    "t": "stopped by a debugger",
    "Z": "a zombie",
    "X": "dead",
}


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds the lock, and what it does meanwhile, such as `stopped`; empty if nobody can tell."""

    pid: int
    command: str = ""
    state: str = ""

    @classmethod
    def of(cls, pid: int) -> LockHolder:
        """What the system tells about a process."""
        if pid == HIDDEN:
            return cls(HIDDEN)
        state, command = _from_proc(pid) if sys.platform == "linux" else _from_ps(pid)
        return cls(pid, mask_urls(command[:_COMMAND_LENGTH]), _STATES.get(state, ""))

    @property
    def is_stopped(self) -> bool:
        return self.state.startswith(STOPPED)

    @property
    def words(self) -> str:
        """`process 4711 (python -m afl agent desk; stopped)`."""
        if self.pid == HIDDEN:
            return "a process that cannot be seen from here (of another container?)"
        details = "; ".join(filter(None, (self.command, self.state)))
        return f"process {self.pid} ({details})" if details else f"process {self.pid}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.pid == HIDDEN:
            return "end that process; a store that containers share belongs on PostgreSQL"
        if self.is_stopped:
            return f"let it go on with `kill -CONT {self.pid}`, or end it with `kill -KILL {self.pid}`"
        return f"wait for it, or end it with `kill {self.pid}`"


class LockWait:
    """One wait. After some seconds it says who is waited for, in one warning; at its limit it is an error."""

    __slots__ = ("_began", "_holder", "_limit", "_path", "_reported")

    def __init__(self, path: str, limit: float, holder: Callable[[], LockHolder | None]) -> None:
        self._path = path
        self._limit = limit
        self._holder = holder
        self._began = time.monotonic()
        self._reported = False

    def pause(self) -> None:
        """A moment's rest, short at first: the next try follows. StoreUnavailable once the limit is reached."""
        waited = self.check()
        time.sleep(_EAGER_PAUSE if waited < _EAGER_SECONDS else _PATIENT_PAUSE)

    def check(self) -> float:
        """How long it has been; StoreUnavailable once the limit is reached."""
        waited = time.monotonic() - self._began
        if waited >= self._limit:
            raise StoreUnavailable(
                f"{self._path}: no write for {waited:.0f} s, since {self._words()} "
                "(AFL_LOCK_TIMEOUT_MS is how long to wait)"
            )
        if not self._reported and waited >= min(REPORT_SECONDS, self._limit / 2):
            self._reported = True
            _log.warning("%s: a write has waited for %.1f s, since %s", self._path, waited, self._words())
        return waited

    def _words(self) -> str:
        holder = self._holder()
        if holder is None:
            return "other processes are always faster; use PostgreSQL for so many writers"
        return f"{holder.words} holds the write lock; {holder.remedy}"


def _from_proc(pid: int) -> tuple[str, str]:
    try:
        # The command's name may hold spaces and brackets; the fields after it cannot.
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(4 * _COMMAND_LENGTH)
    except (OSError, IndexError):
        return "", ""
    return state, command.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def _from_ps(pid: int) -> tuple[str, str]:
    try:
        answer = subprocess.run(
            ["ps", "-o", "stat=,command=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    state, _, command = answer.stdout.strip().partition(" ")
    return state[:1], command.strip()
