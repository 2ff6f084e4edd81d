"""What the C library does with memory that was freed."""

from __future__ import annotations

_KEPT = 8 << 20
_told = False


def keep_freed_memory() -> None:
    """Have glibc keep some megabytes for the next statement, instead of giving them back after each.

    It gives the end of its heap back whenever more than 128 KiB there are free. A statement of SQLite that needs
    temporary tables takes more than that, so each would begin with a hundred page faults. The limit rises to twice the
    size of the largest block that was mapped on its own and freed; elsewhere this does nothing.
    """
    global _told
    if not _told:
        _told = True
        bytes(_KEPT)  # never touched, and so no memory
