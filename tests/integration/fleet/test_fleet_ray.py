"""Tasks on a Ray cluster: a real one, on this machine."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually
from support.fleet_processes import is_gone
from support.fleet_records import Report, reported, run, workflow

from afl.fleet.messages import Level, LogRecord, Record, Status
from afl.fleet.task_attempt import TaskResources
from afl.fleet.task_manager import TaskManager
from afl.fleet.workflow import Ray, Task, Workflow

TOKEN = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "5" * 64,  # else Ray looks for one in the home folder
    "RAY_OVERRIDE_RESOURCES": '{"CPU": 2}',  # one for a task, one for a task that it starts
}
JOBS = """
import os, sys, ray

def train(first, second):
    double = ray.remote(lambda number: 2 * number)
    print("trained", first, second, ray.get(double.remote(21)), os.environ["MODE"])
    print("a warning", file=sys.stderr)

def fail():
    raise ValueError("no data")

def tell_cluster():
    print(ray.get_runtime_context().gcs_address, os.getppid())
"""


class Agent:
    """Runs workflows one after the other, as an agent does: its tasks that name no cluster share one."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._resources = TaskResources(grace=60)

    def run(self, flow: Workflow, **options: Any) -> Report:
        return self._runner.run(reported(flow, self._resources, **options))

    def cluster(self) -> str:
        """The address of that cluster."""
        address = self._runner.run(self._resources.ray.address({**self._resources.environ, **TOKEN}))
        assert address is not None
        return address

    def end(self) -> None:
        self._runner.run(self._resources.ray.close())


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with asyncio.Runner() as runner:
        agent = Agent(runner)
        yield agent
        agent.end()


@pytest.fixture
def cluster(agent: Agent) -> str:
    """A cluster that tasks name: to them it does not matter who started it."""
    return agent.cluster()


def on_ray(cluster: str, folder: Path, **config: Any) -> Task:
    return Task(
        "T", Ray(address=cluster, **config), env={"MODE": "$(id)", **TOKEN}, working_directory=str(folder)
    )


def test_functions_and_programs_run_on_the_cluster(agent: Agent, cluster: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    program = 'echo "in $MODE $1"; echo oops >&2; exit 3'
    report = agent.run(
        workflow(
            function=on_ray(cluster, tmp_path, function="jobs:train", args=("a b", "c")),
            failing=on_ray(cluster, tmp_path, function="jobs:fail"),
            program=on_ray(cluster, tmp_path, cmd="sh", args=("-c", program, "sh", "'x'"), num_cpus=0.5),
        ),
        limit=2,
    )
    assert report.last("function").status is Status.COMPLETED, report.lines(Level.ERROR)
    assert (report.last("failing").exit_code, report.last("program").exit_code) == (1, 3)
    assert set(report.lines(Level.INFO)) == {"trained a b c 42 $(id)", "in $(id) 'x'"}
    assert {"a warning", "oops", "ValueError: no data"} <= set(report.lines(Level.ERROR))


def test_cancel_ends_the_program_on_the_cluster(agent: Agent, cluster: str, tmp_path: Path) -> None:
    def receive(record: Record, manager: TaskManager) -> None:
        if isinstance(record, LogRecord):
            manager.stop("run", Status.CANCELED, "enough")

    task = on_ray(cluster, tmp_path, cmd="sh", args=("-c", "echo $$; sleep 600"))
    report = agent.run(workflow(t=task), receive=receive)
    assert report.last("t").status is Status.CANCELED
    [pid] = report.lines(Level.INFO)
    assert eventually(lambda: is_gone(int(pid)))
    assert int(pid) != os.getpid()


def test_tasks_without_an_address_share_a_cluster_that_ends_with_the_agent(
    agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    config = Ray(function="jobs:tell_cluster")
    first = Task("A", config, env=TOKEN, working_directory=str(tmp_path))
    second = Task("B", config, depends=("a",), env=TOKEN, working_directory=str(tmp_path))
    report = agent.run(workflow(a=first, b=second))
    assert report.run_statuses[-1] is Status.COMPLETED, report.lines(Level.ERROR)
    [address, raylet], again = (line.split() for line in report.lines(Level.INFO))
    assert again == [address, raylet]
    assert not is_gone(int(raylet))
    agent.end()
    assert eventually(lambda: is_gone(int(raylet)))


def test_without_ray_the_task_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    report = run(workflow(t=Task("T", Ray(cmd="true"))))
    assert report.last("t").status is Status.FAILED
    assert 'pip install "agentflow-afl[ray]"' in report.last("t").error
