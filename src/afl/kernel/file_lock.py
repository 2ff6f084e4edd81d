"""Locks on files: a fair lock for the writing processes of a store, how long to wait for it, and who holds it.

A process that releases a lock and wants it again at once would always win over those that wait. So there are two
bytes: the gate, which the next in line holds, and the door behind it. A process that leaves the door queues at the
gate, and cannot pass the one that holds it. No process blocks in the kernel, where no time limit applies: one that
waits tries again after a moment.

POSIX locks belong to the process: they exclude no thread of it, a forked child does not inherit them, and
closing ANY descriptor of the file drops them. Hence one FileLock per file and process, guarded by its owner's
own lock.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, lockf
from pathlib import Path

from afl.kernel.errors import StoreUnavailable
from afl.kernel.private_files import FILE_MODE, open_private
from afl.kernel.setting_kinds import mask_urls

_IS_LINUX = sys.platform.startswith("linux")
# struct flock: Linux puts the type first, the BSDs last.
_FLOCK = "hhqqixxxx" if _IS_LINUX else "qqihh"
HIDDEN = 0
"""The pid of a holder that the system does not tell: a process of another container."""


def lock_holder(descriptor: int, start: int = 0, length: int = 0) -> int | None:
    """The pid of another process with a lock in that range; None if it is free. A length of 0 is the whole rest."""
    if _IS_LINUX:
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    else:
        request = struct.pack(_FLOCK, start, length, 0, fcntl.F_WRLCK, os.SEEK_SET)
    answer = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    kind, pid = (answer[0], answer[4]) if _IS_LINUX else (answer[3], answer[2])
    return None if kind == fcntl.F_UNLCK else max(pid, HIDDEN)


def listed_holder(path: str, byte: int) -> int | None:
    """The same from the system's own list, for a file whose locks we would lose if we opened and closed it."""
    try:
        inode = str(os.stat(path).st_ino)
        with open("/proc/locks") as file:
            rows = [line.split() for line in file]
    except OSError:
        return None
    for _, kind, _, mode, pid, place, start, end in (row for row in rows if len(row) == 8):
        covers = int(start) <= byte and (end == "EOF" or byte <= int(end))
        if covers and (kind, mode) == ("POSIX", "WRITE") and place.rpartition(":")[2] == inode:
            return max(int(pid), HIDDEN)
    return None


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
    """A process that holds the lock, and what it does meanwhile, such as `stopped`; empty if unknown."""

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
        if self.pid == os.getpid():  # our own writes queue for one connection: this one is the application's
            return "another connection of this process"
        details = "; ".join(filter(None, (self.command, self.state)))
        return f"process {self.pid} ({details})" if details else f"process {self.pid}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.pid == HIDDEN:
            return "end that process; a store that containers share belongs on PostgreSQL"
        if self.pid == os.getpid():
            return "commit or roll back its transaction, or pass that connection to `start` as connection="
        if self.is_stopped:
            return f"continue it with `kill -CONT {self.pid}`, or end it with `kill -KILL {self.pid}`"
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
            return "other processes always got it first; use PostgreSQL for this many writers"
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


_GATE, _DOOR = 0, 1
_LOOK_SECONDS = 0.01
_STUCK_SECONDS = 1.0


class FileLock:
    """Held by one process at a time; the owner sees to it that only one of its threads asks."""

    def __init__(self, path: str, limit: float = LOCK_TIMEOUT_MS / 1000, mode: int = FILE_MODE) -> None:
        self.path = path
        self.limit = limit
        self._descriptor = open_private(path, os.O_RDWR, mode)

    def acquire(self) -> None:
        """Wait for it; StoreUnavailable, which names the holder, after `limit` seconds."""
        wait = self._take(_GATE, None)
        try:
            self._take(_DOOR, wait)
        finally:
            lockf(self._descriptor, LOCK_UN, 1, _GATE)

    def release(self) -> None:
        lockf(self._descriptor, LOCK_UN, 1, _DOOR)

    def close(self) -> None:
        os.close(self._descriptor)

    def holder(self) -> LockHolder | None:
        """Another process that holds it now, or is the next in line."""
        for place in (_DOOR, _GATE):
            pid = lock_holder(self._descriptor, place, 1)
            if pid is not None:
                return LockHolder.of(pid)
        return None

    def stuck(self) -> LockHolder | None:
        """The holder, if it is stopped or does not let go for a second; takes nothing."""
        until = time.monotonic() + _STUCK_SECONDS
        first = holder = self.holder()
        while holder is not None and not holder.is_stopped and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            holder = self.holder()
            if holder is not None and first is not None and holder.pid != first.pid:
                return None
        return holder

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _take(self, place: int, wait: LockWait | None) -> LockWait | None:
        while not _is_taken(self._descriptor, place):
            wait = wait or LockWait(self.path.removesuffix(".writer"), self.limit, self.holder)
            wait.pause()
        return wait


def _is_taken(descriptor: int, place: int) -> bool:
    try:
        lockf(descriptor, LOCK_EX | LOCK_NB, 1, place)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True
