"""The queue of writing processes: a POSIX lock that is taken in the order of asking.

The kernel wakes every process that waits for a lock and lets them race, and the one that has just let go
wins. So there are two: a gate, where the next in line stands, and the door behind it. Whoever leaves the door
must queue at the gate, and cannot pass the one who stands there.

POSIX locks belong to the process: they exclude no thread of it, a forked child does not inherit them, and
closing ANY descriptor of the file drops them. Hence one FileLock per file and process, guarded by its owner's
own lock.
"""

from __future__ import annotations

import errno
import os
import time
from fcntl import LOCK_EX, LOCK_UN, lockf

_GATE, _DOOR = 0, 1
_RETRY_SECONDS = 0.001


class FileLock:
    """Held by one process at a time; the owner sees to it that only one of its threads asks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def acquire(self) -> None:
        _take(self._descriptor, _GATE)
        try:
            _take(self._descriptor, _DOOR)
        finally:
            lockf(self._descriptor, LOCK_UN, 1, _GATE)

    def release(self) -> None:
        lockf(self._descriptor, LOCK_UN, 1, _DOOR)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def _take(descriptor: int, place: int) -> None:
    while True:
        try:
            lockf(descriptor, LOCK_EX, 1, place)
        except OSError as error:
            # The kernel thinks in processes: to it, two threads that use two stores may look like a circle.
            if error.errno != errno.EDEADLK:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return
