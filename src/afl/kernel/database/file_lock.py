"""The queue of writing processes: a POSIX lock that is taken in the order of asking.

Whoever lets go of a lock and wants it again at once would always win over those who wait. So there are two: a
gate, where the next in line stands, and the door behind it. Whoever leaves the door must queue at the gate, and
cannot pass the one who stands there.

Nobody blocks in the kernel, where no time limit reaches: whoever waits tries again after a moment.

POSIX locks belong to the process: they exclude no thread of it, a forked child does not inherit them, and
closing ANY descriptor of the file drops them. Hence one FileLock per file and process, guarded by its owner's
own lock.
"""

from __future__ import annotations

import errno
import os
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, lockf

from afl.kernel.database.lock_wait import LOCK_TIMEOUT_MS, LockHolder, LockWait
from afl.kernel.posix_lock import lock_holder
from afl.kernel.private_files import FILE_MODE, open_private

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
