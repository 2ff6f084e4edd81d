"""Line by line with another process."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT = str(Path(__file__).with_name("store_process.py"))


def until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; whoever brings it about gets the processor meanwhile."""
    never = threading.Event()
    while not condition():
        never.wait(0.001)


def received(process: subprocess.Popen[str]) -> Any:
    """What the process says next."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def tell(process: subprocess.Popen[str]) -> None:
    """Let the process go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
