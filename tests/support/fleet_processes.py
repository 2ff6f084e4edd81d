"""Whether a process is still there."""

from __future__ import annotations

from pathlib import Path


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody has waited for yet has, too."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(") ")[2][0] in "ZX"
