"""Who holds a POSIX lock on a byte of a file: asked with F_GETLK, which takes nothing."""

from __future__ import annotations

import fcntl
import os
import struct
import sys

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
