"""A run that is killed and resumed: real `afl` processes in a folder, and what the store says between two of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from afl.runtime.entities import RunDefinition, TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.states import EventState
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId
from support.command_line import environment
from support.processes import wait_until
from support.warm_processes import WarmPopen

SOURCE = """namespace t {
    event facet Work(n: Long) => (m: Long)
    event facet Refuse(n: Long) => (m: Long)
    facet Guarded(n: Long) => (m: Long) andThen {
        a = Refuse(n = $.n)
        yield Guarded(m = a.m)
    } catch {
        b = Work(n = $.n)
        yield Guarded(m = 0 - b.m)
    }
    workflow Main(list: [Long]) => (all: [Long], last: Long) andThen foreach n in $.list {
        a = Work(n = n)
        b = Work(n = a.m)
        c = Guarded(n = b.m)
        d = Work(n = b.m)
        yield Main(all = [c.m, d.m])
    } andThen {
        a = Work(n = 100)
        b = Work(n = a.m)
        yield Main(last = b.m)
    }
}
"""
# Each call leaves a line. The HOLD-th one of a process says so by a file, and waits to be killed.
AGENTS = """import os
import threading
from itertools import count
from pathlib import Path

from afl import handler

calls = count(1)


def attend(n, context):
    with open("calls.txt", "a") as lines:
        lines.write(f"{context.task_id}\\n")
    if next(calls) == int(os.environ.get("HOLD", "0")):
        Path("held").touch()
        threading.Event().wait()


@handler("t.Work")
def work(n, context):
    attend(n, context)
    return {"m": n + 1}


@handler("t.Refuse")
def refuse(n, context):
    attend(n, context)
    raise RuntimeError("no")
"""
LIST = [1, 2, 3, 4, 5]
TASKS = 5 * len(LIST) + 2


def expected() -> dict[str, Any]:
    """What every run must come to, however often it was killed."""
    return {"all": [value for n in LIST for value in (-(n + 3), n + 3)], "last": 102}


class KilledRun:
    """One run in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'afl.db'}"
        (folder / "main.afl").write_text(SOURCE)
        (folder / "agents.py").write_text(AGENTS)

    def command(self) -> list[str]:
        """`afl run` if nothing is stored yet, else `afl resume`."""
        run = self.run() if (self.folder / "afl.db").exists() else None
        options = ["--agent", "agents.py", "--store", self.url, "--concurrency", "3", "--quiet"]
        if run is None:
            return ["run", "main.afl", "--input", f"list={json.dumps(LIST)}", *options]
        return ["resume", run.workflow_id, *options]

    def start(self, **changes: str) -> subprocess.Popen[str]:
        """The next process."""
        return WarmPopen(
            ["-m", "afl", *self.command()],
            cwd=self.folder,
            env=environment(**{"AFL_MAX_DELIVERIES": "1000", **changes}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def finish(self, **changes: str) -> tuple[int, str, str]:
        """A process until its end: its exit code and what it printed."""
        with self.start(**changes) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def crash(self, point: str) -> None:
        """A process that dies at a crash point."""
        code, out, err = self.finish(AFL_CRASH_AT=point)
        assert code == -signal.SIGKILL, f"{point} was not reached: {out}{err}"

    def kill_while_held(self, call: int) -> None:
        """A process, killed from outside while its n-th handler call is under way."""
        held = self.folder / "held"
        with self.start(HOLD=str(call)) as process:
            wait_until(held.exists, process)
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        held.unlink()

    # -- what the store says --------------------------------------------------------------------------------------

    def opened(self) -> closing[PersistenceAPI]:
        return closing(open_store(self.url))

    def run(self) -> RunDefinition | None:
        with self.opened() as store:
            runs = store.get_runs()
        assert len(runs) <= 1
        return runs[0] if runs else None

    def tasks(self) -> list[TaskDefinition]:
        run = self.run()
        if run is None:
            return []
        with self.opened() as store:
            return store.get_tasks_by_workflow(WorkflowId(run.workflow_id))

    def in_flight(self) -> int:
        """How many tasks a process holds, or held when it died."""
        return sum(task.state == TaskState.RUNNING for task in self.tasks())

    def calls(self) -> Counter[str]:
        """How often the handlers of each task were called."""
        path = self.folder / "calls.txt"
        return Counter(path.read_text().split() if path.exists() else [])

    def calls_of_closed_tasks(self) -> dict[str, int]:
        """Of tasks whose result is stored; these must not be called again."""
        calls = self.calls()
        closed = (TaskState.COMPLETED, TaskState.FAILED)
        return {task.uuid: calls[task.uuid] for task in self.tasks() if task.state in closed}

    def check_record(self) -> None:
        """Every step, task and event is there once, and ended."""
        run = self.run()
        assert run is not None
        assert (run.state, run.owner, run.outputs) == ("completed", "", expected())
        run_id = WorkflowId(run.workflow_id)
        with self.opened() as store:
            events = [e for e in store.get_events_by_workflow(run_id) if e.event_type != STEP_CONTINUE]
            assert (store.get_open_steps(run_id), store.get_marks(run_id)) == ([], [])
        tasks, calls = self.tasks(), self.calls()
        assert len(tasks) == len(events) == len({task.step_id for task in tasks}) == TASKS
        states = Counter(event.state for event in events)
        assert states == {EventState.COMPLETED: TASKS - len(LIST), EventState.ERROR: len(LIST)}
        for task in tasks:
            assert 1 <= calls[task.uuid] <= task.deliveries
