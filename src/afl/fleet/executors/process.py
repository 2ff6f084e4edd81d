"""A child process that leads its own process group: both streams are read as data arrives, and the group can be ended.

The event loop is notified when a pipe is readable and when the process has exited (a pidfd); there is no thread per
process and no polling. The task ends when its process does: a daemon that keeps a pipe open is read for a moment
longer and then ended with the rest of the group.
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
_LARGE_OUTPUT = (
    64 * 1024
)  # bytes after which a stream gets a larger pipe buffer, so that its writer blocks less often
_PIPE_BYTES = 1024 * 1024
_LOOK_SECONDS = 0.03


def _pidfd_open(pid: int) -> int:
    if sys.platform == "linux":
        return os.pidfd_open(pid)
    raise OSError(errno.ENOSYS, "there are no pidfds on this system")


class OutputSink(Protocol):
    """Receives output. `full` asks for a pause, and `when_room` calls back at its end."""

    @property
    def full(self) -> bool: ...

    def receive(self, stream: int, data: bytes) -> None: ...

    def when_room(self, call: Callable[[], None]) -> None: ...


class ChildProcess:
    """Started on construction; OSError when it cannot be. `finished` must be awaited."""

    def __init__(self, command: Command, env: Mapping[str, str], sink: OutputSink) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
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
        self._stopping: asyncio.Task[None] | None = None
        self.exited: asyncio.Future[None] = (
            self._loop.create_future()
        )  # the process itself; others may be left
        self._output_closed: asyncio.Future[None] = self._loop.create_future()
        self._watch_exit()
        for stream, descriptor in self._streams.items():
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, self._readable, stream)

    @property
    def group(self) -> int:
        return self._popen.pid

    async def finished(self) -> int:
        """The exit code (negative: the signal that ended it), once the process and its group have ended."""
        await self.exited
        await self._stop_ended()
        await self._drain_output()
        # Until the process is reaped its pid cannot be reused, so this signals no other group.
        send(signal.SIGTERM, [self.group], [])
        code = self._popen.wait()
        await self._end_group(LINGER_SECONDS)
        await self._stop_ended()
        return code

    def stop(self, instance: str, grace: float) -> None:
        """End the process, its group, and every process with the mark of the task: SIGTERM, then SIGKILL.

        All of them have the grace period, also when the process itself ends before the others.
        """
        self._stopping = asyncio.create_task(self._stop(instance, grace))

    async def _stop(self, instance: str, grace: float) -> None:
        send(signal.SIGTERM, [self.group], await asyncio.to_thread(find_marked, [instance]))
        ends = self._loop.time() + grace
        while await asyncio.to_thread(is_alive, self.group, instance):
            if self._loop.time() >= ends:
                send(signal.SIGKILL, [self.group], await asyncio.to_thread(find_marked, [instance]))
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _stop_ended(self) -> None:
        if self._stopping is not None:
            await self._stopping

    async def _drain_output(self) -> None:
        """Read both pipes to their end, or until the time limit after the exit."""
        while not self._output_closed.done():
            paused = self._paused
            await asyncio.wait([self._output_closed], timeout=LINGER_SECONDS)
            if not paused and not self._paused:
                break
        for stream in tuple(self._streams):
            self._close(stream)

    async def _end_group(self, grace: float) -> None:
        """Wait for the rest of the group, which has received SIGTERM."""
        if not send(0, [self.group], []):
            return
        ends = self._loop.time() + grace
        while await asyncio.to_thread(is_alive, self.group, ""):
            late = self._loop.time() - ends
            if late >= 0:
                send(signal.SIGKILL, [self.group], [])
            if late >= grace:
                return  # only processes in uninterruptible sleep are left
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
        self._sink.receive(stream, data)
        if self._sink.full and not self._paused:
            self._pause()

    def _note(self, stream: int, size: int) -> None:
        before, self._received[stream] = self._received[stream], self._received[stream] + size
        if before <= _LARGE_OUTPUT < self._received[stream]:
            _widen(self._streams[stream])

    def _pause(self) -> None:
        self._paused = True
        for descriptor in self._streams.values():
            self._loop.remove_reader(descriptor)
        self._sink.when_room(self._resume)

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
            self._output_closed.set_result(None)

    def _watch_exit(self) -> None:
        """A pidfd becomes readable when the process has exited, and does not reap it; without pidfds a thread waits."""
        try:
            descriptor = _pidfd_open(self._popen.pid)
        except OSError:  # no more descriptors, or another system: the process runs, and its end must be seen
            threading.Thread(target=self._wait_in_thread, name="afl-child", daemon=True).start()
            return

        def ended() -> None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
            self.exited.set_result(None)

        self._loop.add_reader(descriptor, ended)

    def _wait_in_thread(self) -> None:
        os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)  # it is reaped later, as with a pidfd
        self._loop.call_soon_threadsafe(self.exited.set_result, None)


def _widen(descriptor: int) -> None:
    """Linux: enlarge the buffer of a pipe. At the user's limit it stays as it is."""
    if sys.platform == "linux":
        with suppress(PermissionError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
