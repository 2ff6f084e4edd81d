"""A handler that kills its own process: its task is given up in the end, and nothing else is."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses
from support.workshop import SOURCE, Workshop, opened

from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.types import WorkflowId

POISON = """namespace p {
    event facet Poison(n: Long) => (m: Long)
    workflow Deadly(n: Long) => (m: Long) andThen {
        d = Poison(n = $.n)
        yield Deadly(m = d.m)
    }
    workflow Guarded(n: Long) => (why: String) andThen {
        d = Poison(n = $.n) catch { yield Guarded(why = $.error_type) }
    }
}
"""
POISON_AGENT = """import os
import signal

from afl import handler


@handler("p.Poison")
def poison(n):
    with open("deaths.txt", "a") as lines:
        lines.write(f"{os.getpid()}\\n")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database"))
    return f"sqlite:///{tmp_path / 'afl.db'}"


def deaths(workshop: Workshop) -> list[str]:
    """The processes that killed themselves, in order."""
    path = workshop.folder / "deaths.txt"
    return list(dict.fromkeys(path.read_text().split())) if path.exists() else []


def supervise(
    workshop: Workshop, runs: list[WorkflowId], max_deliveries: int, *modules: str
) -> tuple[Warm, int]:
    """Start an agent again whenever it dies, until the runs are over; the last one, and how many died."""
    (workshop.folder / "poison.py").write_text(POISON_AGENT)
    for killed in range(100):
        options = ("--store", workshop.url, "--name", f"deadly-{killed}")
        agent = workshop.afl("agent", "poison.py", *modules, *options, AFL_MAX_DELIVERIES=str(max_deliveries))
        if not died(workshop, agent, runs):
            return agent, killed
        assert agent.wait() == -signal.SIGKILL
    raise AssertionError("it is never given up")


def died(workshop: Workshop, agent: Warm, runs: list[WorkflowId]) -> bool:
    """Whether the agent kills itself, or the runs are over before."""

    def dead() -> bool:
        return str(agent.pid) in deaths(workshop)

    eventually(lambda: dead() or all(workshop.run(run).is_over for run in runs), agent.said)
    return dead()


def check_given_up(workshop: Workshop, run: WorkflowId) -> None:
    task, message = workshop.task(run), workshop.wait_failed(run)
    assert (task.state, task.deaths, task.deliveries) == (TaskState.FAILED, 3, 3)
    assert "given up: 3 workers died while working on it, the last was process " in message
    assert any(f"process {pid} on " in message for pid in deaths(workshop))


def check_unharmed(workshop: Workshop, run: WorkflowId) -> None:
    record = workshop.run(run)
    assert record.state == RunnerState.COMPLETED, record.error
    assert record.outputs["all"] == [n * 2 for n in range(30)]


def test_a_poisoned_task_is_given_up_and_says_who_died(tmp_path: Path, url: str, warm: WarmProcesses) -> None:
    with opened(tmp_path, url, warm, SOURCE + POISON) as workshop:
        workshop.runner(AFL_MAX_DELIVERIES="3")
        deadly, guarded = workshop.submit("p.Deadly", n=1), workshop.submit("p.Guarded", n=2)
        harmless = workshop.submit("t.Fan", list=list(range(30)))
        _, killed = supervise(workshop, [deadly, guarded, harmless], 3)
        check_given_up(workshop, deadly)
        assert workshop.run(guarded).outputs == {"why": "Poisoned"}
        check_unharmed(workshop, harmless)
        assert {task.deaths for task in workshop.tasks(harmless)} == {0}
        assert 3 <= killed <= 6


def test_tasks_in_the_hands_of_those_who_die_are_unharmed(
    tmp_path: Path, url: str, warm: WarmProcesses
) -> None:
    with opened(tmp_path, url, warm, SOURCE + POISON) as workshop:
        deadly = workshop.submit("p.Deadly", n=1)
        harmless = workshop.submit("t.Fan", list=list(range(30)))
        supervise(workshop, [deadly, harmless], 3, "agents.py")
        check_given_up(workshop, deadly)
        check_unharmed(workshop, harmless)


def test_one_delivery_is_at_most_once(tmp_path: Path, url: str, warm: WarmProcesses) -> None:
    with opened(tmp_path, url, warm, SOURCE + POISON) as workshop:
        deadly = workshop.submit("p.Deadly", n=1)
        agent, killed = supervise(workshop, [deadly], 1)
        assert killed == len(deaths(workshop)) == 1
        message = workshop.wait_failed(deadly)
        assert message == (
            f"given up: its worker died while working on it, the last was {said_who(message, deaths(workshop))}"
        )
        assert (workshop.task(deadly).deaths, workshop.task(deadly).deliveries) == (1, 1)
        assert agent.terminate() == 0


def said_who(message: str, pids: list[str]) -> str:
    who = message.rpartition("the last was ")[2]
    assert who.startswith(f"process {pids[-1]} on ")
    return who
