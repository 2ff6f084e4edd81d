"""Python programs as real processes that start quickly: forked from a parent that has everything imported."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from support.command_line import Outcome, environment

_PARENT = str(Path(__file__).with_name("warm_parent.py"))
_STARTER = str(Path(__file__).with_name("warm_start.py"))
_PATIENCE_SECONDS = 120.0


class WarmPopen(subprocess.Popen[str]):
    """`subprocess.Popen` of a Python program, by what follows `python` on the command line, in text mode."""

    def __init__(self, argv: Sequence[str], *, parent: WarmProcesses | None = None, **options: Any) -> None:
        self._parent = parent or shared()
        super().__init__(list(argv), text=True, **options)

    def _execute_child(
        self,
        args: list[str],
        executable: object,
        preexec_fn: object,
        close_fds: object,
        pass_fds: object,
        cwd: Path | str | None,
        env: dict[str, str] | None,
        startupinfo: object,
        creationflags: object,
        shell: object,
        *more: Any,
    ) -> None:
        """Instead of fork and exec: an order to the parent, and the ends of pipes that are the child's."""
        pipes, start_new_session = more[:6], more[11]
        given = (pipes[0], pipes[3], pipes[5])
        order = {
            "argv": args,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        self._connection = self._parent.connect()
        socket.send_fds(
            self._connection, [b"{"], [number if fd == -1 else fd for number, fd in enumerate(given)]
        )
        self._connection.sendall(json.dumps(order)[1:].encode() + b"\n")
        self._answers = self._connection.makefile("r")
        self.pid = int(self._answers.readline())
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As os.waitpid: the process id, or 0 if it has not ended, and its status."""
        if wait_flags & os.WNOHANG:
            try:
                self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return 0, 0
        status = int(self._answers.readline())
        self._answers.close()
        self._connection.close()
        return self.pid, status

    def _internal_poll(self, **defaults: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run_python(argv: Sequence[str], *, folder: Path, env: dict[str, str], stdin: str = "") -> Outcome:
    """`python ARGV` until it ends."""
    pipe = subprocess.PIPE
    with WarmPopen(argv, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            out, err = process.communicate(stdin, timeout=_PATIENCE_SECONDS)
        except BaseException:
            process.kill()
            raise
    return Outcome(process.returncode, out, err)


def afl_warm(*args: str, folder: Path, stdin: str = "", **changes: str) -> Outcome:
    """`python -m afl` until it ends, as `afl_process`, without the start of an interpreter."""
    return run_python(["-m", "afl", *args], folder=folder, env=environment(**changes), stdin=stdin)


class Warm:
    """One of the processes; `code` is its exit code once it has been waited for, negative for a signal."""

    def __init__(self, process: WarmPopen, out: Path) -> None:
        self._process = process
        self.pid = process.pid
        self.out = out

    @property
    def code(self) -> int | None:
        return self._process.returncode

    def said(self) -> str:
        """What it printed so far, on both outputs."""
        return self.out.read_text()

    def kill(self) -> None:
        """kill -9, and it is gone when this returns."""
        self.signal(signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL, self.said()

    def signal(self, number: int) -> None:
        """Send a signal; what comes of it is for the process to say."""
        self._process.send_signal(number)

    def terminate(self) -> int:
        """SIGTERM, and its exit code when it has ended."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        return self._process.wait()


class WarmSession(NamedTuple):
    """One parent for all processes of a test session; it ends with the first of them, whose process id this is."""

    folder: Path
    first: int

    def address(self) -> str:
        """Where the parent listens. Whoever asks first starts it."""
        self.folder.mkdir(exist_ok=True)
        socket_path = self.folder / "socket"
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not socket_path.exists():
                self._start(str(socket_path))
        return str(socket_path)

    def _start(self, address: str) -> None:
        """Not as a Popen, which its process would have to wait for."""
        reading, writing = os.pipe()
        command = [sys.executable, _PARENT, address, "--until", str(self.first)]
        files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, writing, 1)]
        os.posix_spawn(sys.executable, command, environment(), file_actions=files)
        os.close(writing)
        with os.fdopen(reading) as said:
            assert said.readline() == "ready\n"


class WarmProcesses:
    """The parent and its children. Leaving the block ends all of them. `modules` are imported ahead, as what
    every command needs is. With a session it is the parent of that one, which outlives the block."""

    _parent: subprocess.Popen[str] | None

    def __init__(self, *modules: str, session: WarmSession | None = None) -> None:
        self._modules = modules
        self._session = session

    def __enter__(self) -> WarmProcesses:
        self._numbers = count(1)
        self._started: list[Warm] = []
        self._folder = tempfile.TemporaryDirectory(prefix="warm")
        self._parent = None
        if self._session is not None:
            self.address = self._session.address()
            return self
        self.address = f"{self._folder.name}/socket"
        self._parent = subprocess.Popen(
            [sys.executable, _PARENT, self.address, *self._modules],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._parent.stdout is not None
        assert self._parent.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *error: object) -> None:
        self.end_all()
        if self._parent is not None:
            self._parent.communicate(timeout=60)
        self._folder.cleanup()

    def connect(self) -> socket.socket:
        """A connection to the parent, which is good for one process."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address)
        return connection

    def start(self, *args: str, folder: Path, **env: str) -> Warm:
        """`afl ARGS` in a folder; `-m ARGS` is `python -m afl.runtime.runner ARGS`."""
        argv = ["-m", "afl.runtime.runner", *args[1:]] if args[:1] == ("-m",) else ["-m", "afl", *args]
        path = folder / f"process-{next(self._numbers)}.out"
        with path.open("a") as out:
            process = WarmPopen(
                argv,
                parent=self,
                cwd=folder,
                env=environment(**env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        warm = Warm(process, path)
        self._started.append(warm)
        return warm

    def end_all(self) -> None:
        """Kill whatever still runs."""
        for warm in self._started:
            if warm.code is None:
                warm.signal(signal.SIGKILL)
                warm.wait()
        self._started.clear()

    def command(self, argv: Sequence[str]) -> list[str]:
        """`python ARGV` for other programs to start; to kill it is to kill the process it stands for."""
        return [sys.executable, "-I", "-S", _STARTER, self.address, *argv]

    def put_program(self, folder: Path, name: str = "afl", argv: Sequence[str] = ("-m", "afl")) -> Path:
        """A program for a shell, in a folder of its PATH: `python ARGV` with what it is given."""
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.command(argv))} "$@"\n')
        program.chmod(0o755)
        return program

    def python(self) -> str:
        """A program that is `python`, for the variable WARM_PYTHON of programs that start others."""
        program = Path(self._folder.name) / "python"
        return str(program if program.exists() else self.put_program(program.parent, program.name, ()))


_sessions: list[WarmSession] = []


def share_in_session(session: WarmSession) -> None:
    """From now on `shared` is the parent of a session."""
    _sessions.append(session)


@cache
def shared() -> WarmProcesses:
    """The parent for all tests of this process, or of its session; it ends with it."""
    processes = WarmProcesses(session=_sessions[-1] if _sessions else None)
    processes.__enter__()
    atexit.register(processes.__exit__)
    return processes
