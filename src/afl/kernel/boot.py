"""Which start of which machine this is: steady clocks and file locks mean something only within one boot."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """A text that is the same in every process until the machine starts again."""
    if _LINUX.exists():
        return _LINUX.read_text("ascii").strip()
    command = ["sysctl", "-n", "kern.bootsessionuuid"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
