"""A child process that leads a group of its own: both streams are read as they come, and all of it can be ended.

The loop is told by the kernel when a pipe has something and when the process has ended (a pidfd); there is no
thread per process and no polling. The task has ended when its process has: a daemon that keeps a pipe open is
listened to for a moment longer and then ended with the rest of the group.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from afl.fleet.executors.command import Command
from afl.fleet.reaper import find_marked, is_alive, send

LINGER_SECONDS = 1.0
_CHUNK = 64 * 1024
_TALKATIVE = 64 * 1024  # bytes after which a stream gets a pipe that holds more: its writer waits less often
_PIPE_BYTES = 1024 * 1024
_LOOK_SECONDS = 0.03


def _pidfd_open(pid: int) -> int:
    if sys.platform == "linux":
        return os.pidfd_open(pid)
    raise OSError(errno.ENOSYS, "there are no pidfds on this system")


class Listener(Protocol):
    """Where output goes. `full` asks for a pause, and `when_room` is told what to call at its end."""

    @property
    def full(self) -> bool: ...

    def receive(self, stream: int, data: bytes) -> None: ...

    def when_room(self, call: Callable[[], None]) -> None: ...


class ChildProcess:
    """Started when made; OSError when it cannot be. `finished` must be awaited."""

    def __init__(self, command: Command, env: Mapping[str, str], listener: Listener) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._popen = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=command.folder,
            start_new_session=True,
        )
        assert self._popen.stdout is not None and self._popen.stderr is not None
        self._streams = {1: self._popen.stdout.fileno(), 2: self._popen.stderr.fileno()}
        self._received = {1: 0, 2: 0}
        self._paused = False
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._silent: asyncio.Future[None] = self._loop.create_future()
        self._watch_exit()
        for stream, descriptor in self._streams.items():
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, self._readable, stream)

    @property
    def group(self) -> int:
        return self._popen.pid

    async def finished(self) -> int:
        """The exit code (negative: the signal that ended it), once the process and its group are gone."""
        await self._exited
        await self._hear_out()
        # Until the process is reaped its number cannot be another group's, so this hits nobody else.
        send(signal.SIGTERM, [self.group], [])
        code = self._popen.wait()
        await self._end_group(LINGER_SECONDS)
        return code

    async def stop(self, instance: str, grace: float) -> None:
        """End the process, its group, and what carries the mark of the task: SIGTERM, then SIGKILL."""
        send(signal.SIGTERM, [self.group], await asyncio.to_thread(find_marked, [instance]))
        ends = self._loop.time() + grace
        while await asyncio.to_thread(is_alive, self.group, instance):
            if self._loop.time() >= ends:
                send(signal.SIGKILL, [self.group], await asyncio.to_thread(find_marked, [instance]))
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _hear_out(self) -> None:
        """Both pipes to their end, or until the moment is over that they get after the exit."""
        while not self._silent.done():
            paused = self._paused
            await asyncio.wait([self._silent], timeout=LINGER_SECONDS)
            if not paused and not self._paused:
                break
        for stream in tuple(self._streams):
            self._close(stream)

    async def _end_group(self, grace: float) -> None:
        """What the process left behind in its group has had its SIGTERM; now it is waited for."""
        if not send(0, [self.group], []):
            return
        ends = self._loop.time() + grace
        while await asyncio.to_thread(is_alive, self.group, ""):
            late = self._loop.time() - ends
            if late >= 0:
                send(signal.SIGKILL, [self.group], [])
            if late >= grace:
                return  # only what the kernel itself holds is left
            await asyncio.sleep(_LOOK_SECONDS)

    def _readable(self, stream: int) -> None:
        try:
            data = os.read(self._streams[stream], _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._close(stream)
            return
        self._note(stream, len(data))
        self._listener.receive(stream, data)
        if self._listener.full and not self._paused:
            self._pause()

    def _note(self, stream: int, size: int) -> None:
        before, self._received[stream] = self._received[stream], self._received[stream] + size
        if before <= _TALKATIVE < self._received[stream]:
            _widen(self._streams[stream])

    def _pause(self) -> None:
        self._paused = True
        for descriptor in self._streams.values():
            self._loop.remove_reader(descriptor)
        self._listener.when_room(self._resume)

    def _resume(self) -> None:
        self._paused = False
        for stream, descriptor in self._streams.items():
            self._loop.add_reader(descriptor, self._readable, stream)

    def _close(self, stream: int) -> None:
        descriptor = self._streams.pop(stream)
        self._loop.remove_reader(descriptor)
        pipe = self._popen.stdout if stream == 1 else self._popen.stderr
        assert pipe is not None
        pipe.close()
        if not self._streams:
            self._silent.set_result(None)

    def _watch_exit(self) -> None:
        """A pidfd becomes readable when the process has ended and leaves it unreaped; elsewhere a thread waits."""
        try:
            descriptor = _pidfd_open(self._popen.pid)
        except (
            OSError
        ):  # no more descriptors, or another system: the process runs, and must be seen to its end
            threading.Thread(target=self._wait_in_thread, name="afl-child", daemon=True).start()
            return

        def ended() -> None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
            self._exited.set_result(None)

        self._loop.add_reader(descriptor, ended)

    def _wait_in_thread(self) -> None:
        os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)  # it is reaped later, as with a pidfd
        self._loop.call_soon_threadsafe(self._exited.set_result, None)


def _widen(descriptor: int) -> None:
    """Linux: let a pipe hold more. A user has only so much of it; then it stays as it is."""
    if sys.platform == "linux":
        with suppress(PermissionError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
