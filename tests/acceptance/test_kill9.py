"""kill -9 of `afl run` and `afl resume`, at random moments and at every crash point: always the same result."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from support.command_line import environment
from support.killed_runs import TASKS, KilledRun, expected
from support.warm_processes import run_python

from afl.kernel import crashpoint

KILLS = 6
# Points that `afl run` passes, with the passage at which to die; the first and a later one where that differs.
RUN_POINTS = (
    "commit.before:1",
    "commit.before:3",
    "commit.after:1",
    "commit.after:4",
    "handler.before:2",
    "handler.after:1",
    "handler.after:5",
    "deliver.before:1",
    "deliver.before:3",
)
RESUME_POINTS = ("take.after:1", "claim.after:1", "commit.before:1", "commit.after:2", "deliver.before:2")
AGENT_POINTS = ("finish.before:1", "finish.after:1")


def finish(run: KilledRun) -> None:
    code, out, err = run.finish()
    assert code == 0, err
    assert json.loads(out) == expected()
    run.check_record()


@pytest.mark.parametrize("seed", range(4))
def test_a_run_outlives_kills_at_random_moments(tmp_path: Path, seed: int) -> None:
    run, random = KilledRun(tmp_path), Random(seed)
    settled: dict[str, int] = {}
    for kill in range(KILLS):
        left = TASKS - len(settled)
        run.kill_while_held(random.randint(1, max(1, min(left - 3, 6))))
        assert run.in_flight() > 0, f"kill {kill} hit nothing"
        closed = run.calls_of_closed_tasks()
        assert settled.items() <= closed.items()
        settled = closed
    finish(run)
    assert settled.items() <= run.calls_of_closed_tasks().items()


@pytest.mark.parametrize("point", RUN_POINTS)
def test_a_run_outlives_a_kill_at_a_crash_point(tmp_path: Path, point: str) -> None:
    run = KilledRun(tmp_path)
    run.crash(point)
    assert run.in_flight() > 0 or point in ("commit.before:1", "commit.after:1"), "nothing was under way"
    finish(run)


@pytest.mark.parametrize("point", RESUME_POINTS)
def test_a_resumed_run_outlives_a_kill_at_a_crash_point(tmp_path: Path, point: str) -> None:
    run = KilledRun(tmp_path)
    run.crash("handler.after:3")
    assert run.in_flight() > 0
    run.crash(point)
    assert run.tasks()
    finish(run)


# An agent as other programs are: it finds pending work, does it, says so, and continues the run.
AGENT = """
import sys
from afl.runtime.evaluator import Evaluator
from afl.runtime.store import open_store

store = open_store(sys.argv[1])
evaluator = Evaluator(store)
run_id = store.get_runs()[0].workflow_id
store.reclaim()
for task in store.claim_tasks(["t.Work"], limit=2, workflow_id=run_id):
    with open("calls.txt", "a") as lines:
        lines.write(f"{task.uuid}\\n")
    evaluator.continue_step(task.step_id, {"m": task.data["n"] + 1}, task=task)
evaluator.resume(run_id)
store.close()
"""


@pytest.mark.parametrize("point", AGENT_POINTS)
def test_a_run_outlives_the_kill_of_an_agent_that_reports(tmp_path: Path, point: str) -> None:
    run = KilledRun(tmp_path)
    run.crash("commit.after:2")
    agent = ["-c", AGENT, run.url]
    assert run_python(agent, folder=tmp_path, env=environment(AFL_CRASH_AT=point)).code < 0
    assert run.in_flight() > 0
    assert run_python(agent, folder=tmp_path, env=environment()).code == 0
    finish(run)


def test_every_crash_point_is_visited() -> None:
    visited = {point.partition(":")[0] for point in (*RUN_POINTS, *RESUME_POINTS, *AGENT_POINTS)}
    assert visited == set(crashpoint.POINTS)
