"""A handler blocks the interpreter: no thread of its process runs, no lease is renewed, and nobody takes its task.

AFL_EXPLORE makes it 20 s instead of 3: longer than the lease of a run, shorter than that of a task.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from support.eventually import eventually
from support.properties import EXPLORING
from support.warm_processes import WarmProcesses
from support.workshop import opened

from afl.runtime.entities import TaskState

SECONDS = 20 if EXPLORING else 3
# A function of PyDLL is called without releasing the interpreter's lock.
AGENTS = f"""import ctypes
import os

from afl import handler


@handler("t.Work")
def work(n, context):
    with open("calls.txt", "a") as lines:
        lines.write(f"{{context.task_id}} {{os.getpid()}} {{context.attempt}} 1\\n")
    ctypes.PyDLL(None).sleep({SECONDS})
    return {{"m": n * 2, "stamp": "done"}}
"""


def test_it_runs_once_with_two_runners_on_every_store(
    tmp_path: Path, postgres_database: str, mongo_database_url: str, warm: WarmProcesses
) -> None:
    urls = {
        "sqlite": f"sqlite:///{tmp_path / 'afl.db'}",
        "postgres": postgres_database,
        "mongo": mongo_database_url,
    }
    with ExitStack() as stack:
        begun = []
        for kind, url in urls.items():
            (folder := tmp_path / kind).mkdir()
            workshop = stack.enter_context(opened(folder, url, warm))
            (folder / "agents.py").write_text(AGENTS)
            runners = [workshop.runner() for _ in range(2)]
            begun.append((workshop, workshop.submit("t.One", n=1), runners))
        for workshop, run, runners in begun:
            eventually(workshop.calls, runners[0].said)
            assert workshop.wait_completed(run) == {"m": 2, "stamp": "done"}
            assert len(workshop.calls()) == 1
            task = workshop.task(run)
            assert (task.state, task.deliveries, task.deaths, task.expiries) == (TaskState.COMPLETED, 1, 0, 0)
            assert [runner.terminate() for runner in runners] == [0, 0]
