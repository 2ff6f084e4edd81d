"""A command in a real terminal."""

from __future__ import annotations

import os
import pty
import signal
from pathlib import Path

from support.command_line import environment
from support.eventually import eventually
from support.warm_processes import WarmPopen


class Terminal:
    """A process whose terminal the test is."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.folder = folder
        self._ours, theirs = pty.openpty()
        self._process = WarmPopen(
            ["-m", "afl", *args],
            cwd=folder,
            env=environment(TERM="dumb"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self._shown = ""

    def shown(self) -> str:
        try:
            while data := os.read(self._ours, 65536):
                self._shown += data.decode(errors="replace")
        except (BlockingIOError, OSError):
            pass
        return self._shown.replace("\r\n", "\n")

    def until(self, text: str) -> None:
        eventually(lambda: text in self.shown(), self.shown)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        code = self._process.wait(timeout=60)
        self.shown()
        return code

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)
