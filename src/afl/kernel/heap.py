"""What the C library does with memory that was freed."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD = -1  # glibc's M_TRIM_THRESHOLD
_KEPT = 4 << 20
_told = False


def keep_freed_memory() -> None:
    """Have glibc keep a few megabytes for the next statement, instead of giving them back after each.

    It gives the end of its heap back whenever more than 128 KiB there are free. A statement of SQLite that needs
    temporary tables takes more than that, so each would begin with a hundred page faults. Large blocks are not on the
    heap, and go back as ever. Where there is no such call, nothing is done.
    """
    global _told
    if not _told:
        _told = True
        try:
            ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, _KEPT)
        except (OSError, AttributeError, TypeError):
            return
