"""Watching a file for writes: by inotify, so on Linux only, and how often to read it in between."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import select
import sys
from dataclasses import dataclass

LINUX = sys.platform.startswith("linux")
FIRST_SECONDS = 0.0001
GROWTH = 1.25
LONGEST_SECONDS = 1.0
SPACING_SECONDS = 0.002
BURST_READS = 50
_IN_MODIFY = 0x2  # written to, or truncated
_ENOUGH_BYTES = 4096  # an event has 16, and the kernel makes one of equal ones


class FileWatch:
    """One file, watched by itself: writes to others in its directory end no wait.

    For one thread; only `interrupt` may be called from another. Raises OSError where there is no inotify,
    where its limits are reached, or where the file is not there.
    """

    def __init__(self, path: str) -> None:
        self._events = _inotify("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _inotify("inotify_add_watch", self._events, os.fsencode(path), _IN_MODIFY)
            self._wake_reader, self._wake_writer = os.pipe()
        except OSError:
            os.close(self._events)
            raise
        self._poll = select.poll()
        self._poll.register(self._events, select.POLLIN)
        self._poll.register(self._wake_reader, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Whether the file was written to since the last call, or is within some seconds."""
        self._poll.poll(seconds * 1000)
        written = False
        while self._read():
            written = True
        return written

    def interrupt(self) -> None:
        """End the wait under way, and every later one at once."""
        os.write(self._wake_writer, b"!")

    def close(self) -> None:
        """Also right in a forked child: the parent's watch does not end with the child's copy."""
        for descriptor in (self._events, self._wake_reader, self._wake_writer):
            os.close(descriptor)

    def _read(self) -> bool:
        try:
            return bool(os.read(self._events, _ENOUGH_BYTES))
        except BlockingIOError:  # no more events
            return False


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds between two reads: first `asleep`, then `watching`, which a write ends."""

    asleep: float
    watching: float


class WatchInterval:
    """When to read a file again whose writes are reported, but not the moment at which they are committed.

    The pause is short after a write and then grows, up to a second: a commit is visible only when its bytes are on the
    disk, and a pause that grows in proportion finds it late in proportion, on a fast disk as on one that takes seconds.
    Writes without end do not cause reads without end: on average the reads keep a distance.
    """

    def __init__(self) -> None:
        self._step = FIRST_SECONDS
        self._written = True
        self._even = -math.inf  # when the reads so far would have ended, had they kept their distance

    def written(self) -> None:
        """The file was written to before the next read."""
        self._written = True
        self._step = FIRST_SECONDS

    def after_read(self, now: float, *, changed: bool) -> Pause:
        """The pause after a read.

        Commits come one after another, so a change that no write preceded since the read before leaves nothing
        to wait for: the next commit begins to write after it, and is reported.
        """
        if changed and not self._written:
            self._step = LONGEST_SECONDS
        self._written = False
        step, self._step = self._step, min(self._step * GROWTH, LONGEST_SECONDS)
        self._even = max(self._even, now - BURST_READS * SPACING_SECONDS) + SPACING_SECONDS
        asleep = max(step % 0.001, self._even - now)  # poll() takes whole milliseconds only
        return Pause(asleep, max(0.0, step - asleep))


def file_identity(path: str) -> tuple[int, int] | None:
    """What distinguishes the file at a path from one that replaces it; None when there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _inotify(name: str, *arguments: int | bytes) -> int:
    """Call one of inotify's functions, which Python does not offer."""
    if not LINUX:
        raise OSError(errno.ENOSYS, "only Linux has inotify")
    result: int = getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
