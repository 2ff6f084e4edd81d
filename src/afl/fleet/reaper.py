"""Ends the processes of an agent that died.

An agent starts one reaper and reports every task to it over a pipe: `+instance` before its process is started,
`=instance pid` when that leads a process group, `-instance` when it has ended. The end of the pipe is the end of the
agent; tasks that are still open then are ended, with SIGTERM first. Processes that left their group are found by the
variable that every process of a task inherits; so is one whose group the agent could not report any more. Only a
process that left its group and dropped its variables is missed.

This file is run by its path, in a bare interpreter: it imports nothing of AgentFlow and starts at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

_PROC = "/proc"
MARK = "AFL_TASK_INSTANCE"
_POLL_SECONDS = 0.05
_LEAST_LOOKS = 4  # a process that was being started when the agent died has its mark only after its exec


class Reaper:
    """The agent's end of the pipe. A report costs one small write, and is not waited for."""

    def __init__(self, grace: float) -> None:
        reading, self._pipe = os.pipe()
        os.set_blocking(self._pipe, True)
        argv = [sys.executable, "-I", "-S", os.path.abspath(__file__), str(grace)]
        # A session of its own: signals of a terminal to the agent's group must not reach it.
        self._process = subprocess.Popen(
            argv, stdin=reading, stdout=subprocess.DEVNULL, start_new_session=True, cwd="/"
        )
        os.close(reading)

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, instance: str) -> None:
        """A process of this task is about to be started."""
        self._tell(f"+{instance}")

    def started(self, instance: str, group: int) -> None:
        """It leads this process group."""
        self._tell(f"={instance} {group}")

    def ended(self, instance: str) -> None:
        """It has ended, and so has its group."""
        self._tell(f"-{instance}")

    def close(self) -> None:
        """The agent ends normally: no task is open, and the reaper exits."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
            self._process.wait()

    def _tell(self, line: str) -> None:
        try:
            os.write(self._pipe, line.encode() + b"\n")
        except BrokenPipeError:  # the reaper was killed: tasks continue without it
            return


def find_marked(instances: Iterable[str]) -> list[int]:
    """The processes that carry the mark of one of the tasks; none where the system has no /proc."""
    marks = {f"{MARK}={instance}".encode() for instance in instances}
    if not marks or not os.path.isdir(_PROC):
        return []
    found = []
    for name in os.listdir(_PROC):
        if name.isdigit():
            try:
                with open(f"{_PROC}/{name}/environ", "rb") as file:
                    environ = file.read()
            except OSError:  # it ended, or belongs to another user
                continue
            if not marks.isdisjoint(environ.split(b"\0")):
                found.append(int(name))
    return found


def find_members(groups: Iterable[int]) -> list[int]:
    """The live processes of some groups; zombies do not count.

    Without /proc, a group that can be signaled stands for its members.
    """
    if not os.path.isdir(_PROC):
        return [group for group in groups if send(0, [group], [])]
    wanted = {str(group).encode() for group in groups}
    found = []
    for name in os.listdir(_PROC) if wanted else ():
        if name.isdigit():
            try:
                with open(f"{_PROC}/{name}/stat", "rb") as file:
                    state, _parent, group = file.read().rpartition(b") ")[2].split()[:3]
            except OSError:
                continue
            if group in wanted and state not in (b"Z", b"X"):
                found.append(int(name))
    return found


def is_alive(group: int, instance: str) -> bool:
    """Whether a process of a task is left: in its group, or with its mark if `instance` is given."""
    return bool(find_members([group]) or (instance and find_marked([instance])))


def send(number: int, groups: Iterable[int], pids: Iterable[int]) -> int:
    """Signal groups and processes; the number that existed."""
    there = 0
    for call, targets in ((os.killpg, groups), (os.kill, pids)):
        for target in targets:
            try:
                call(target, number)
            except ProcessLookupError:
                continue
            except PermissionError:  # it changed its user, or only zombies are left
                continue
            there += 1
    return there


def reap(open_tasks: dict[str, int], grace: float) -> None:
    """End everything that belongs to the tasks: SIGTERM, and after the grace period SIGKILL, until nothing is left."""
    deadline = time.monotonic() + grace
    looks = 0
    signaled: set[int] = set()
    while True:
        groups = [group for group in open_tasks.values() if group]
        pids = find_marked(open_tasks)
        late = time.monotonic() >= deadline
        if late:
            send(signal.SIGKILL, groups, pids)
            left = len(find_members(groups)) + len(find_marked(open_tasks))
        else:
            new_groups = [group for group in groups if group not in signaled]
            send(signal.SIGTERM, new_groups, [pid for pid in pids if pid not in signaled])
            signaled.update(new_groups, pids)
            left = len(find_members(groups)) + len(pids)
        looks += 1
        if (not left and looks >= _LEAST_LOOKS) or time.monotonic() > deadline + grace:
            return
        time.sleep(_POLL_SECONDS)


def listen(stream: Iterable[str]) -> dict[str, int]:
    """The tasks that were open when the pipe closed, each with its group (0: unknown)."""
    open_tasks: dict[str, int] = {}
    for line in stream:
        kind = line[:1]
        instance, _, group = line[1:].rstrip("\n").partition(" ")
        if kind == "-":
            open_tasks.pop(instance, None)
        elif kind in "+=" and line.endswith("\n"):
            open_tasks[instance] = int(group or 0)
    return open_tasks


def main(grace: float) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends only with its agent
    open_tasks = listen(sys.stdin)
    if open_tasks:
        reap(open_tasks, grace)


if __name__ == "__main__":
    main(float(sys.argv[1]))
