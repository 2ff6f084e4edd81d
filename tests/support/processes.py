"""Real processes for tests: run Python in another one, wait for it, kill it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def python(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process with pipes; it is killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Return once the condition holds; fail if the process that should bring it about ends before."""
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=0.01)
            assert condition(), f"the process ended with status {status} before its work was done"
