"""kill -9 of a process that works on a loop with timers: every iteration happens, each timer fires once."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from support.command_line import Outcome
from support.warm_processes import afl_warm

from afl.runtime.entities import TaskState
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.types import WorkflowId

SOURCE = """
event facet Check(n: Long) => (m: Long)

workflow Poll(until: Long) => (n: Long = 0, seen: [Long] = []) andThen repeat last {
    pause = sys.Sleep(ms = 1)
    check = Check(n = last.n) with After(pause)
    told = sys.Publish(name = "n", value = check.m)
    yield Poll(n = check.m, seen = last.seen ++ [check.m])
} until last.n >= $.until
"""
MODULE = """
from afl import handler


@handler("Check")
def check(n):
    return {"m": n + 1}
"""
ITERATIONS = 13  # more than are kept
POINTS = (
    *("commit.before:1", "commit.before:2", "commit.before:20", "commit.after:2", "commit.after:21"),
    *("finish.before:1", "finish.before:12", "finish.after:1", "finish.after:12"),
    *("handler.before:1", "handler.after:12", "deliver.before:12"),
)


def afl(folder: Path, *args: str, **variables: str) -> Outcome:
    settings = {"AFL_STORE": f"sqlite:///{folder}/poll.db"}
    return afl_warm(*args, "--agent", "poll.py", "--quiet", folder=folder, **settings, **variables)


@pytest.mark.parametrize("point", POINTS)
def test_the_next_process_goes_on_with_the_loop(tmp_path: Path, point: str) -> None:
    (tmp_path / "poll.afl").write_text(SOURCE)
    (tmp_path / "poll.py").write_text(MODULE)
    begin = ("run", "poll.afl", "--input", f"until={ITERATIONS}")
    killed = afl(tmp_path, *begin, AFL_CRASH_AT=point)
    assert killed.code == -9, killed.out
    with closing(SqliteStore(f"sqlite:///{tmp_path}/poll.db")) as store:
        runs = store.get_runs()
        done = afl(tmp_path, "resume", runs[0].workflow_id) if runs else afl(tmp_path, *begin)
        expected = {"n": ITERATIONS, "seen": list(range(1, ITERATIONS + 1))}
        assert (done.code, json.loads(done.out or "{}")) == (0, expected), done.err
        (run,) = store.get_runs()
        run_id = WorkflowId(run.workflow_id)
        assert [each.value for each in store.get_published(run_id)] == [ITERATIONS]
        tasks = store.get_tasks_by_workflow(run_id)
        assert {task.state for task in tasks} == {TaskState.COMPLETED}
        assert len(tasks) == 2 * 11  # of the last iteration and the ten before it
