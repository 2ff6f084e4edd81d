"""Operating runs with real processes: one submits, one waits, one follows, one works or is killed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Outcome, environment
from support.processes import wait_until
from support.warm_processes import WarmPopen, afl_warm

SOURCE = """namespace t {
    event facet Work(n: Long) => (m: Long)
    workflow Chain(n: Long) => (m: Long) andThen {
        a = Work(n = $.n)
        b = Work(n = a.m)
        yield Chain(m = b.m)
    }
}
"""
# The second step says how far it is, and waits until a file appears.
AGENTS = """import time
from pathlib import Path

from afl import handler


@handler("t.Work")
def work(n, context):
    context.progress(0.5, f"half of {n}")
    while n == 2 and not Path("go").exists():
        Path("begun").touch()
        time.sleep(0.01)
    return {"m": n + 1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chain.afl").write_text(SOURCE)
    (tmp_path / "agents.py").write_text(AGENTS)
    return tmp_path


@contextmanager
def started(folder: Path, *args: str) -> Iterator[WarmPopen]:
    """`afl` in a process of its own, killed at the end if it still runs."""
    with WarmPopen(
        ["-m", "afl", *args],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def result(done: Outcome) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def submitted(folder: Path, *options: str) -> str:
    done = afl_warm("submit", "chain.afl", "-i", "n=1", *options, folder=folder)
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_one_submits_one_waits_one_follows_one_works(
    folder: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    options = ("--store", request.getfixturevalue("postgres_database")) if kind == "postgres" else ()
    run = submitted(folder, *options)
    (folder / "go").touch()
    with (
        started(folder, "wait", run, *options) as waiting,
        started(folder, "logs", "-f", run, *options) as following,
    ):
        done = afl_warm("resume", run, "--agent", "agents.py", *options, folder=folder)
        outputs, told = waiting.communicate(timeout=60)
        log, _ = following.communicate(timeout=60)
    assert result(done) == json.loads(outputs) == {"m": 3}, told
    assert (waiting.returncode, following.returncode) == (0, 0)
    assert [line.split("  ")[1:] for line in log.splitlines()] == [
        ["a", "50% half of 1"],
        ["b", "50% half of 2"],
    ]


def test_why_sees_that_a_worker_was_killed(folder: Path) -> None:
    run = submitted(folder)
    with started(folder, "resume", run, "--agent", "agents.py") as working:
        wait_until((folder / "begun").exists, working)
        busy = result(afl_warm("why", run, "--json", folder=folder))
        assert (busy["code"], busy["outlook"]) == ("task-running", "moves")
        assert f"lease held by process {working.pid} on " in busy["sentence"]
        working.kill()
        working.communicate()
    dead = result(afl_warm("why", run, "--json", folder=folder))
    assert dead["code"] == "task-owner-dead"
    assert f"process {working.pid} on " in dead["sentence"]


def test_a_run_is_canceled_under_its_worker(folder: Path) -> None:
    run = submitted(folder)
    with started(folder, "resume", run, "--agent", "agents.py") as working:
        wait_until((folder / "begun").exists, working)
        assert afl_warm("cancel", run, folder=folder).code == 0
        (folder / "go").touch()
        working.communicate(timeout=60)
    told = afl_warm("wait", run, folder=folder)
    assert (told.code, told.out) == (1, "")
    assert "was canceled: canceled by operator" in told.err
    shown = result(afl_warm("show", run, "--json", folder=folder))
    assert (shown["state"], shown["outputs"]) == ("canceled", {})


def test_a_terminal_gets_colors_and_a_pipe_does_not(folder: Path) -> None:
    run = submitted(folder)
    terminal, child = os.openpty()
    with WarmPopen(
        ["-m", "afl", "list"],
        cwd=folder,
        env=environment(TERM="xterm-256color", COLUMNS="120", LINES="30"),
        stdout=child,
        stderr=subprocess.DEVNULL,
    ) as process:
        process.wait(timeout=60)
    os.close(child)
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert "\x1b[36mcreated" in shown and run in shown
    assert "\x1b[" not in afl_warm("list", folder=folder).out
