"""A folder with agents, a store, and runners at work on it: real processes whose handlers are held as a test wants."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from afl.language import compile_source
from afl.operations.program.submission import submit
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.program.program import Program
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses

SOURCE = """namespace t {
    event facet Work(n: Long) => (m: Long, stamp: String)
    workflow One(n: Long) => (m: Long, stamp: String) andThen {
        w = Work(n = $.n)
        yield One(m = w.m, stamp = w.stamp)
    }
    workflow Fan(list: [Long]) => (all: [Long], stamps: [String]) andThen foreach n in $.list {
        w = Work(n = n)
        yield Fan(all = [w.m], stamps = [w.stamp])
    }
}
"""
# Every call leaves a line with a stamp that no other call has, and answers with it. From the HOLD_FROM-th call of a
# process on, or for as long as the file `hold` is there, it says that it is held and waits.
AGENTS = """import os
import time
from itertools import count
from pathlib import Path

from afl import handler

calls = count(1)
hold_from = int(os.environ.get("HOLD_FROM", "0"))


def write(name, line):
    with open(name, "a") as lines:
        lines.write(line + "\\n")


def is_held(call):
    return 0 < hold_from <= call or Path("hold").exists()


@handler("t.Work")
def work(n, context):
    call = next(calls)
    stamp = f"{context.task_id} {os.getpid()} {context.attempt} {call}"
    write("calls.txt", stamp)
    if is_held(call):
        write(f"held-{os.getpid()}", context.task_id)
        while is_held(call):
            time.sleep(0.005)
    time.sleep(0.006)
    write("returns.txt", stamp)
    return {"m": n * 2, "stamp": stamp}
"""


@dataclass(frozen=True)
class Call:
    """One call of a handler."""

    task: str
    pid: int
    attempt: int
    stamp: str


class Workshop:
    """See the module."""

    def __init__(self, folder: Path, url: str, warm: WarmProcesses, source: str = SOURCE) -> None:
        self.folder = folder
        self.url = url
        self._warm = warm
        self._source = source
        self._described: dict[str, str] = {}
        (folder / "agents.py").write_text(AGENTS)

    # -- processes --------------------------------------------------------------------------------------------

    def agent(self, *options: str, **env: str) -> Warm:
        """`afl agent agents.py`."""
        return self.afl("agent", "agents.py", "--store", self.url, *options, **env)

    def runner(self, *options: str, **env: str) -> Warm:
        """`afl runner --agent agents.py`, without a status server."""
        fixed = ("--agent", "agents.py", "--no-http", "--store", self.url)
        return self.afl("runner", *fixed, *options, **env)

    def afl(self, *args: str, **env: str) -> Warm:
        """Any command, as a process."""
        return self._warm.start(*args, folder=self.folder, **env)

    def hold(self, held: bool) -> None:
        """Hold every handler from its next call on, or let all of them go."""
        if held:
            (self.folder / "hold").touch()
        else:
            (self.folder / "hold").unlink()

    def held_by(self, process: Warm) -> list[str]:
        """The tasks whose handlers a process said it holds."""
        return self._lines(f"held-{process.pid}")

    def wait_held(self, process: Warm) -> str:
        """The first task that a process holds, once it does."""
        return eventually(lambda: self.held_by(process), self.told_all)[0]

    def in_hand_of(self, process: Warm) -> list[TaskDefinition]:
        """The tasks that are RUNNING by this very process, as the store has it."""
        running = self.store.find_tasks(TaskFilter(state=TaskState.RUNNING, limit=10_000))
        return [task for task in running if f"process {process.pid} on " in self._words(task.owner)]

    def _words(self, owner: str) -> str:
        """What the store says of an owner; it is asked once, since a process keeps its id and its words."""
        if owner not in self._described:
            self._described[owner] = self.store.describe(owner)
        return self._described[owner]

    # -- what handlers left -----------------------------------------------------------------------------------

    def calls(self) -> list[Call]:
        """Every call of a handler, in order."""
        return [self._call(line) for line in self._lines("calls.txt")]

    def returns(self) -> list[Call]:
        """Every call that came to its end."""
        return [self._call(line) for line in self._lines("returns.txt")]

    def _call(self, line: str) -> Call:
        task, pid, attempt, _ = line.split()
        return Call(task, int(pid), int(attempt), line)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    # -- the store --------------------------------------------------------------------------------------------

    @cached_property
    def store(self) -> PersistenceAPI:
        """The store as an onlooker has it: open until `close`."""
        return open_store(self.url)

    def close(self) -> None:
        """Let go of the store; the next look opens it again."""
        if "store" in vars(self):
            self.store.close()
            del self.store

    @cached_property
    def _compiled(self) -> dict[str, Any]:
        return compile_source(self._source).program

    def submit(self, workflow: str, **inputs: Any) -> WorkflowId:
        """A run for whoever takes it."""
        program = Program({"program": self._compiled, "workflow": workflow})
        return WorkflowId(submit(self.store, program, inputs).run)

    def run(self, workflow_id: WorkflowId) -> RunDefinition:
        run = self.store.get_run(workflow_id)
        assert run is not None
        return run

    def tasks(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        return self.store.get_tasks_by_workflow(workflow_id)

    def task(self, workflow_id: WorkflowId) -> TaskDefinition:
        """The only task of a run."""
        (task,) = self.tasks(workflow_id)
        return task

    def wait_over(self, workflow_id: WorkflowId) -> RunDefinition:
        """The run, once it is over."""
        return eventually(
            lambda: run if (run := self.run(workflow_id)).is_over else None, lambda: self.told(workflow_id)
        )

    def wait_completed(self, workflow_id: WorkflowId) -> dict[str, Any]:
        """The outputs of a run, once it is completed."""
        run = self.wait_over(workflow_id)
        assert run.state == RunnerState.COMPLETED, run.error
        return run.outputs

    def wait_failed(self, workflow_id: WorkflowId) -> str:
        """The message of a run's error, once it has failed."""
        run = self.wait_over(workflow_id)
        assert run.state == RunnerState.FAILED and run.error is not None
        return str(run.error["message"])

    def told_all(self) -> str:
        """Where every run stands."""
        return "\n".join(self.told(WorkflowId(run.workflow_id)) for run in self.store.get_runs())

    def told(self, workflow_id: WorkflowId) -> str:
        """Where a run stands, for a failing test to show."""
        states = Counter((task.state, task.hold, task.owner) for task in self.tasks(workflow_id))
        said = {path.name: path.read_text()[-2000:] for path in self.folder.glob("process-*.out")}
        return f"{self.run(workflow_id)}\n{states}\n{json.dumps(said, indent=1)}"


def opened(folder: Path, url: str, warm: WarmProcesses, source: str = SOURCE) -> closing[Workshop]:
    """A workshop, closed at the end of the block."""
    return closing(Workshop(folder, url, warm, source))
