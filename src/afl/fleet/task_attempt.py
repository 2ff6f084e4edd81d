"""One attempt of a task: its process, its output, its timeout, its outcome."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from afl.fleet.executors.command import check_ray, command_of
from afl.fleet.executors.process import ChildProcess
from afl.fleet.executors.shared_ray import SharedRay
from afl.fleet.journal import RunJournal, TaskOutput
from afl.fleet.messages import Status
from afl.fleet.reaper import MARK, Reaper
from afl.fleet.workflow import Ray, Task
from afl.kernel.errors import AgentFlowError

GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TaskResources:
    """What all tasks of an agent share."""

    reaper: Reaper | None = None
    grace: float = GRACE_SECONDS  # seconds between SIGTERM and SIGKILL
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    ray: SharedRay = field(default_factory=SharedRay)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended."""

    ok: bool
    exit_code: int | None = None
    error: str = ""


class Attempt:
    """Created when the task has a slot; `run` is called once."""

    def __init__(
        self,
        resources: TaskResources,
        journal: RunJournal,
        task_id: str,
        task: Task,
        instance: str,
        number: int,
    ) -> None:
        self._resources, self._journal = resources, journal
        self._task_id, self._task = task_id, task
        self._instance, self._number = instance, number
        self._child: ChildProcess | None = None
        self._reason = ""
        self._stopped = asyncio.Event()

    async def run(self) -> Outcome:
        """Start the process and wait for its end; its last line is in the journal then."""
        self._journal.task(self._task_id, self._instance, Status.RUNNING, attempt=self._number)
        reaper = self._resources.reaper
        if reaper is not None:
            reaper.begin(self._instance)
        try:
            return await self._run()
        finally:
            if reaper is not None:
                reaper.ended(self._instance)

    def stop(self, reason: str) -> None:
        """End it with everything that it started; the first reason counts."""
        if not self._reason:
            self._reason = reason
            self._stopped.set()
            if self._child is not None:
                self._child.stop(self._instance, self._resources.grace)

    async def _run(self) -> Outcome:
        output = TaskOutput(self._journal, self._task.name, self._instance)
        try:
            command = command_of(await self._placed())
            if self._reason:
                return Outcome(False, error=self._reason)
            self._child = child = ChildProcess(command, self._env(), output)
        except (OSError, ValueError, AgentFlowError) as error:
            return Outcome(False, error=f"Failed to start child process: {_without_number(error)}")
        if self._resources.reaper is not None:
            self._resources.reaper.started(self._instance, child.group)
        timer = self._limit_time()
        await child.exited
        if timer is not None:
            timer.cancel()
        code = await child.finished()
        output.finish()
        return self._outcome(code)

    async def _placed(self) -> Task:
        """The task with the address of the agent's cluster, if it needs one and names none."""
        config = self._task.config
        if not isinstance(config, Ray) or config.address is not None or self._reason:
            return self._task
        check_ray()
        finding = asyncio.ensure_future(
            self._resources.ray.address({**self._resources.environ, **self._task.env})
        )
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait([finding, stopping], return_when=asyncio.FIRST_COMPLETED)
            address = finding.result() if finding.done() else None
        finally:
            finding.cancel()
            stopping.cancel()
        return replace(self._task, config=replace(config, address=address))

    def _limit_time(self) -> asyncio.TimerHandle | None:
        timeout = self._task.timeout
        if timeout is None:
            return None
        return asyncio.get_running_loop().call_later(timeout, self.stop, f"timed out after {timeout:g} s")

    def _outcome(self, code: int) -> Outcome:
        if self._reason:
            return Outcome(False, code, self._reason)
        if code == 0:
            return Outcome(True, code)
        return Outcome(False, code, f"exit code {code}" if code > 0 else f"ended by {_signal_name(-code)}")

    def _env(self) -> dict[str, str]:
        """The agent's variables, the task's, and those that identify the attempt."""
        own = {
            "AFL_RUN_ID": self._journal.run_id,
            "AFL_WORKFLOW_ID": self._journal.workflow_id,
            "AFL_TASK_ID": self._task_id,
            "AFL_TASK_ATTEMPT": str(self._number),
            MARK: self._instance,
        }
        return {**self._resources.environ, **self._task.env, **own}


def _without_number(error: Exception) -> str:
    """The text of an error; of one of the system without its number."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
