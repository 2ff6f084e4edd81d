"""Handlers that fail in every way there is: the run says what was wrong, and the agent goes on with other work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses
from support.workshop import SOURCE, Workshop, opened

from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.types import WorkflowId

FACETS = (
    "Raise",
    "Exit",
    "Text",
    "WrongType",
    "Stop",
    "Lacks",
    "Nothing",
    "NoJson",
    "NotANumber",
    "Hollow",
    "Huge",
)
TYPES = {"NoJson": "Json", "NotANumber": "Double", "Hollow": "Json", "Huge": "String"}
BAD = (
    "namespace b {\n"
    + "".join(
        f"""event facet {name}() => (m: {TYPES.get(name, "Long")})
    workflow Do{name}() => (m: {TYPES.get(name, "Long")}) andThen {{ w = {name}() yield Do{name}(m = w.m) }}
"""
        for name in FACETS
    )
    + """event facet Hang() => (m: Long)
    workflow Impatient() => (m: Long) andThen { w = Hang() with Timeout(ms = 100) yield Impatient(m = w.m) }
    workflow Patient() => (m: Long) andThen { w = Hang() yield Patient(m = w.m) }
}
"""
)
# Hang waits for good in a way that no signal and no cancellation reaches.
BAD_AGENTS = """import os
import sys
import threading
from dataclasses import dataclass

from afl import handler


@dataclass
class Price:
    amount: float


def answers(name, make):
    @handler(f"b.{name}")
    def work():
        return make()

    return work


def fail():
    raise OSError("the disk is full")


raises = answers("Raise", fail)
exits = answers("Exit", lambda: sys.exit("enough"))
text = answers("Text", lambda: "seven")
wrong_type = answers("WrongType", lambda: {"m": "seven"})
stops = answers("Stop", lambda: next(iter(())))
lacks = answers("Lacks", lambda: {})
nothing = answers("Nothing", lambda: None)
no_json = answers("NoJson", lambda: {"m": object()})
not_a_number = answers("NotANumber", lambda: {"m": float("nan")})
hollow = answers("Hollow", lambda: {"m": [Price(float("nan"))]})
huge = answers("Huge", lambda: {"m": "x" * 100_000_000})


@handler("b.Hang")
def hang():
    with open("hanging", "a") as lines:
        lines.write(f"{os.getpid()}\\n")
    threading.Event().wait()
"""


@pytest.fixture
def workshop(tmp_path: Path, warm: WarmProcesses) -> Iterator[Workshop]:
    (tmp_path / "bad.py").write_text(BAD_AGENTS)
    with opened(tmp_path, f"sqlite:///{tmp_path / 'afl.db'}", warm, SOURCE + BAD) as workshop:
        yield workshop
        warm.end_all()


def bad_agent(workshop: Workshop, *options: str) -> Warm:
    return workshop.afl("agent", "bad.py", "agents.py", "--store", workshop.url, *options)


def test_each_run_says_what_was_wrong_and_the_agent_goes_on(workshop: Workshop) -> None:
    agent = bad_agent(workshop)
    runs = {name: workshop.submit(f"b.Do{name}") for name in FACETS}
    told = {name: workshop.wait_failed(run) for name, run in runs.items()}
    expected = {
        "Raise": "the disk is full",
        "Exit": "enough",
        "Text": "b.Text: a result is a map of return values, got str",
        "WrongType": "b.WrongType: return field 'm': expected Long, got String 'seven'",
        "Stop": "StopIteration",
        "Lacks": "b.Lacks: the result lacks m",
        "Nothing": "b.Nothing: the result lacks m",
        "NoJson": "the result of b.NoJson is not plain JSON data: ",
        "NotANumber": "the result of b.NotANumber is not plain JSON data: at m: it holds NaN or an infinity",
        "Hollow": "the result of b.Hollow is not plain JSON data: at m[0].amount: it holds NaN or an infinity",
        "Huge": "the result of b.Huge is 100,000,008 bytes, more than the limit of 8,388,608",
    }
    wrong = {name: text for name, text in told.items() if not text.startswith(expected[name])}
    assert wrong == {}
    for name, run in runs.items():
        record, task = workshop.run(run), workshop.task(run)
        assert record.error is not None
        assert (record.error["facet"], record.error["step"]) == (f"b.{name}", "w")
        assert (task.state, task.deliveries, task.failures, task.result) == (TaskState.FAILED, 1, 0, None)
    assert workshop.wait_completed(workshop.submit("t.One", n=1))["m"] == 2
    assert agent.terminate() == 0
    assert [name for name in FACETS if f"✗ b.{name} " not in agent.said()] == []
    assert "  File " in agent.said()  # those of the handlers
    assert "afl/runtime/worker" not in agent.said()


def hanging(workshop: Workshop, agent: Warm) -> None:
    """Return once a handler hangs."""
    eventually((workshop.folder / "hanging").exists, agent.said)


def test_a_handler_that_never_returns_is_given_up_and_its_slot_goes_to_another(workshop: Workshop) -> None:
    agent = bad_agent(workshop, "--concurrency", "1")
    run = workshop.submit("b.Impatient")
    message = workshop.wait_failed(run)
    assert message == "not done after 100 ms"
    assert (workshop.folder / "hanging").read_text().split() == [str(agent.pid)]
    record = workshop.run(run)
    assert record.error is not None and record.error["error_type"] == "Timeout"
    outputs = [workshop.wait_completed(workshop.submit("t.One", n=n))["m"] for n in range(3)]
    assert outputs == [0, 2, 4]
    assert agent.terminate() == 0


def why(workshop: Workshop, run: WorkflowId) -> dict[str, str]:
    asked = workshop.afl("why", run, "--store", workshop.url, "--json")
    assert asked.wait() == 0, asked.said()
    answer: dict[str, str] = json.loads(asked.said())
    return answer


def test_why_tells_who_has_a_task_that_never_ends(workshop: Workshop) -> None:
    agent = bad_agent(workshop, "--name", "hanger")
    run = workshop.submit("b.Patient")
    hanging(workshop, agent)
    eventually(lambda: workshop.task(run).started)
    reason = why(workshop, run)
    assert reason["code"] == "task-running"
    assert "lease held by afl-agent on hanger until " in reason["sentence"]
    assert workshop.run(run).state == RunnerState.RUNNING
    agent.kill()
    reason = why(workshop, run)
    assert reason["code"] == "task-owner-dead"
    assert reason["sentence"].startswith("afl-agent on hanger, which had it, died; ")
