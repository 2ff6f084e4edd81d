"""`afl` commands as real processes that start quickly: forked from a parent that has everything imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from support.command_line import environment

PARENT = str(Path(__file__).with_name("warm_parent.py"))


@dataclass
class Warm:
    """One of the processes; `code` is its exit code once it has been waited for, negative for a signal."""

    parent: WarmProcesses = field(repr=False)
    pid: int
    out: Path
    code: int | None = None

    def said(self) -> str:
        """What it printed so far, on both outputs."""
        return self.out.read_text()

    def kill(self) -> None:
        """kill -9, and it is gone when this returns."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL, self.said()

    def signal(self, number: int) -> None:
        """Send a signal; what comes of it is for the process to say."""
        os.kill(self.pid, number)

    def terminate(self) -> int:
        """SIGTERM, and its exit code when it has ended."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        if self.code is None:
            self.code = int(self.parent.ask(wait=self.pid))
        return self.code


class WarmProcesses:
    """The parent and its children. Leaving the block ends all of them. `modules` are imported ahead, as what
    every command needs is."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules

    def __enter__(self) -> WarmProcesses:
        self._numbers = count(1)
        self._started: list[Warm] = []
        self._parent = subprocess.Popen(
            [sys.executable, PARENT, *self._modules],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready"
        return self

    def __exit__(self, *error: object) -> None:
        self.end_all()
        self._parent.communicate(timeout=60)

    def start(self, *args: str, folder: Path, **env: str) -> Warm:
        """`afl ARGS` in a folder; `-m ARGS` is `python -m afl.runtime.runner ARGS`."""
        out = folder / f"process-{next(self._numbers)}.out"
        out.touch()
        pid = self.ask(args=args, folder=str(folder), out=str(out), env=env)
        warm = Warm(self, pid, out)
        self._started.append(warm)
        return warm

    def end_all(self) -> None:
        """Kill whatever still runs."""
        for warm in self._started:
            if warm.code is None:
                os.kill(
                    warm.pid, signal.SIGKILL
                )  # a zombie at worst: its parent has not been told to bury it
                warm.wait()
        self._started.clear()

    def ask(self, **order: Any) -> Any:
        """One line to the parent, and its answer."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps(order) + "\n")
        self._parent.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._parent.stdout is not None
        line = self._parent.stdout.readline()
        assert line, f"the parent of warm processes ended with {self._parent.poll()}"
        return json.loads(line)
