"""Where the tests keep their files: in memory, where the machine has room for them.

SQLite and the servers wait for the disk at every commit, milliseconds each, tens of thousands of times in a run. A
process that is killed loses nothing it has written, wherever that is; only a machine without power would.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_DISK = Path("/var/tmp")
_NEEDED_BYTES = 4 << 30  # a whole run uses less than half of this


def keep_files_in_memory() -> None:
    """Let this process, and those it starts, make temporary files in memory, unless TMPDIR says where."""
    if "TMPDIR" not in os.environ and _is_fit(_MEMORY):
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None


def disk() -> Path:
    """A folder for temporary files that is not in memory, for tests of how writers wait for the disk."""
    return _DISK if _DISK.is_dir() else Path(tempfile.gettempdir())


def _is_fit(folder: Path) -> bool:
    """Whether files in the folder may be large, and may be programs, as in a virtual environment."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    forbids_programs = os.statvfs(folder).f_flag & os.ST_NOEXEC
    return not forbids_programs and min(shutil.disk_usage(folder).free, _available_memory()) >= _NEEDED_BYTES


def _available_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
