"""A real shell that a test types commands into, as a reader of the docs does: jobs in the background, `kill -9 %1`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from support.command_line import environment

_END = "end-of-command"
_PATIENCE_SECONDS = 120.0  # a deadline for a page that would hang; no command is expected to take that long
_STOP = "for job in $(jobs -p); do kill $job; done; wait"


class Shell:
    """bash with job control in a folder; what a command prints to standard output is what it gives back."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """What is in the folder `programs` comes before what is installed."""
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._told = tempfile.TemporaryFile()  # noqa: SIM115  standard error of all commands, for failures
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment(PATH=path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
            text=True,
            start_new_session=True,
        )
        self.run("set -m")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the jobs as a reader would, then the shell, and whatever is left of both."""
        try:
            if self._bash.poll() is None:
                self.run(_STOP)
        finally:
            self._end_session()
            self._bash.communicate()
            self._told.close()

    def _end_session(self) -> None:
        """Kill the shell and everything it started: each job has a group of its own, and all have one session."""
        for found in Path("/proc").glob("[0-9]*"):
            with suppress(ProcessLookupError):
                if os.getsid(int(found.name)) == self._bash.pid:
                    os.kill(int(found.name), signal.SIGKILL)

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and standard output of one command; of a job in the background, nothing."""
        assert self._bash.stdin is not None and self._bash.stdout is not None
        quiet = f"{command[:-1]} > /dev/null &" if command.endswith("&") else command
        self._bash.stdin.write(f"{quiet}\nprintf '%s %s\\n' {_END} $?\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        deadline = threading.Timer(_PATIENCE_SECONDS, self._end_session)
        deadline.start()
        try:
            for line in self._bash.stdout:
                # What a command prints need not end in a newline.
                before, found, code = line.partition(f"{_END} ")
                lines.append(before)
                if found:
                    return int(code), "".join(lines)
        finally:
            deadline.cancel()
            deadline.join()
        raise AssertionError(f"the shell ended in {command!r}: {self.told()}")

    def told(self, characters: int = 4000) -> str:
        """The end of what all commands wrote to standard error."""
        end = self._told.seek(0, os.SEEK_END)
        self._told.seek(max(0, end - characters))
        return self._told.read().decode(errors="replace")
