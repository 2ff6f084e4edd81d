"""Real processes for tests: run Python in another one, wait for it, kill it."""

from __future__ import annotations

import os
import signal
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


_HOLD = """
import os, signal, sys
from afl.kernel.database import connect
connect(sys.argv[1]).write(lambda tx: os.kill(os.getpid(), signal.SIGSTOP))
"""


@contextmanager
def stopped_writer(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is stopped in the middle of a write to an SQLite store; `let_go` lets it end."""
    with python("-c", _HOLD, url) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        yield process


def let_go(process: subprocess.Popen[str]) -> None:
    """Let a stopped writer commit and end."""
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Return once the condition holds; fail if the process that should bring it about ends before."""
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=0.01)
            assert condition(), f"the process ended with status {status} before its work was done"
