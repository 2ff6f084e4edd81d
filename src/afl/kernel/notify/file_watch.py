"""Word from the kernel that somebody wrote to a file (inotify, so on Linux only)."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import sys

LINUX = sys.platform.startswith("linux")
_IN_MODIFY = 0x2  # written to, or truncated
_ENOUGH_BYTES = 4096  # an event has 16, and the kernel makes one of equal ones


class FileWatch:
    """One file, watched by itself: what happens to others in its directory wakes nobody.

    For one thread; only `interrupt` may be called from another. Raises OSError where there is no inotify,
    where its limits are reached, or where the file is not there.
    """

    def __init__(self, path: str) -> None:
        self._events = _inotify("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _inotify("inotify_add_watch", self._events, os.fsencode(path), _IN_MODIFY)
            self._inside, self._outside = os.pipe()
        except OSError:
            os.close(self._events)
            raise
        self._poll = select.poll()
        self._poll.register(self._events, select.POLLIN)
        self._poll.register(self._inside, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Whether the file was written to since the last call, or is within some seconds."""
        self._poll.poll(seconds * 1000)
        written = False
        while self._read():
            written = True
        return written

    def interrupt(self) -> None:
        """End the wait under way, and every later one at once."""
        os.write(self._outside, b"!")

    def close(self) -> None:
        """Also right in a forked child: the parent's watch does not end with the child's copy."""
        for descriptor in (self._events, self._inside, self._outside):
            os.close(descriptor)

    def _read(self) -> bool:
        try:
            return bool(os.read(self._events, _ENOUGH_BYTES))
        except BlockingIOError:  # no more events
            return False


def file_identity(path: str) -> tuple[int, int] | None:
    """What tells the file at a path from one that takes its place; None when there is none."""
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
