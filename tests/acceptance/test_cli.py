"""The command line as people use it: real processes, real signals, one store between them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Outcome, afl_process, environment
from support.eventually import eventually
from support.processes import wait_until
from support.warm_processes import WarmPopen, afl_warm

from afl.runtime.store import open_store

ROOT = Path(__file__).parents[2]
NEWSROOM = ROOT / "examples" / "newsroom"

CHAIN = """namespace t {
    event facet Work(n: Long) => (m: Long)
    workflow Chain(n: Long) => (y: Long) andThen {
        a = Work(n = $.n)
        b = Work(n = a.m)
        c = Work(n = b.m)
        yield Chain(y = c.m)
    }
}
"""
# The second step waits until a file appears, and says by another that it has begun.
AGENTS = """import time
from pathlib import Path

from afl import handler


@handler("t.Work")
def work(n, context):
    with open("calls.txt", "a") as calls:
        calls.write(f"{n} {context.idempotency_key}\\n")
    while n == 2 and not Path("go").exists():
        Path("begun").touch()
        time.sleep(0.01)
    return {"m": n + 1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chain.afl").write_text(CHAIN)
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


def chain(folder: Path) -> tuple[str, ...]:
    return ("run", "chain.afl", "--input", "n=1", "--agent", "agents.py")


def only_run(folder: Path) -> str:
    """The id of the only run in the folder's store."""
    store = open_store(f"sqlite:///{folder}/.afl/afl.db")
    try:
        (run,) = store.get_runs()
    finally:
        store.close()
    return run.workflow_id


def calls(folder: Path) -> list[str]:
    return (folder / "calls.txt").read_text().splitlines()


def outputs(done: Outcome) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_example_runs_and_always_says_the_same(tmp_path: Path) -> None:
    args = ("run", str(NEWSROOM / "newsroom.afl"), "--agent", str(NEWSROOM / "agents.py"))
    page = outputs(afl_warm(*args, folder=tmp_path))["page"]
    assert page[0] == "Good morning, science!"
    assert [line.partition(" (")[2].partition(",")[0] for line in page[1:]] == [
        *["solid", "solid", "unconfirmed", "solid", "solid", "plausible"]
    ]
    assert outputs(afl_warm(*args, folder=tmp_path, AFL_STORE="memory://"))["page"] == page


def test_the_example_is_in_the_standard_form(tmp_path: Path) -> None:
    assert afl_warm("fmt", "--check", str(NEWSROOM / "newsroom.afl"), folder=tmp_path).code == 0


def test_the_installed_command_and_the_module_are_the_same(folder: Path) -> None:
    command = Path(sys.executable).with_name("afl")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == afl_process("--version", folder=folder).out


def test_compiling_through_pipes(folder: Path) -> None:
    done = afl_process(folder=folder, stdin=CHAIN)
    assert json.loads(done.out)["namespaces"][0]["name"] == "t"
    assert afl_warm("--check", folder=folder, stdin="facet (").code == 1


def test_output_that_nobody_reads_is_no_traceback(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "afl", "chain.afl"],
        cwd=folder,
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_terminal_gets_a_live_display_and_the_result_stays_clean(folder: Path) -> None:
    (folder / "go").touch()
    terminal, child = os.openpty()
    with WarmPopen(
        ["-m", "afl", *chain(folder)],
        cwd=folder,
        env=environment(TERM="xterm-256color", COLUMNS="100", LINES="30"),
        stdout=subprocess.PIPE,
        stderr=child,
    ) as process:
        os.close(child)
        shown = read_terminal(terminal)
        result, _ = process.communicate()
    assert json.loads(result) == {"y": 4}
    assert "✓" in shown and "t.Chain" in shown and "3 completed" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is back"


def read_terminal(terminal: int) -> str:
    """Everything written to a terminal until its other end is closed, which Linux tells by an error."""
    data = b""
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            data += part
    os.close(terminal)
    return data.decode()


def test_interrupted_and_resumed(folder: Path) -> None:
    with started(folder, *chain(folder)) as process:
        wait_until((folder / "begun").exists, process)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    run = only_run(folder)
    assert process.returncode == 130
    assert f"Interrupted. Continue with: afl resume {run} --agent agents.py" in told
    (folder / "go").touch()
    assert outputs(afl_warm("resume", run, "--agent", "agents.py", folder=folder)) == {"y": 4}


def test_killed_and_resumed(folder: Path) -> None:
    with started(folder, *chain(folder)) as process:
        wait_until((folder / "begun").exists, process)
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    (folder / "go").touch()
    done = afl_warm("resume", only_run(folder), "--agent", "agents.py", folder=folder)
    assert outputs(done) == {"y": 4}
    work = [line.split()[0] for line in calls(folder)]
    assert work == ["1", "2", "2", "3"], "what was done stays done, what was under way is done again"
    assert len({line for line in calls(folder) if line.startswith("2 ")}) == 1, (
        "with the same idempotency key"
    )


def test_a_run_that_somebody_works_on_is_left_alone(folder: Path) -> None:
    with started(folder, *chain(folder)) as process:
        wait_until((folder / "begun").exists, process)
        second = afl_warm("resume", only_run(folder), "--agent", "agents.py", folder=folder)
        assert (second.code, second.out) == (1, "")
        assert "is held by process" in second.err
        assert "Wait until that process is done" in second.err
        shown = afl_warm("show", folder=folder)
        assert "▸ b = t.Work  working" in shown.out
        (folder / "go").touch()
        result, _ = process.communicate()
    assert json.loads(result) == {"y": 4}
    assert [line.split()[0] for line in calls(folder)] == ["1", "2", "3"]


def test_two_processes_resume_one_run_and_each_step_is_done_once(folder: Path) -> None:
    paused = outputs(afl_warm("run", "chain.afl", "-i", "n=1", folder=folder))
    assert paused["status"] == "PAUSED"
    resume = ("resume", paused["run"], "--agent", "agents.py")
    with started(folder, *resume) as first, started(folder, *resume) as second:
        eventually((folder / "begun").exists)  # by one of them: the other may be refused, and end before
        (folder / "go").touch()
        told = [process.communicate() for process in (first, second)]
    codes = sorted([first.returncode, second.returncode])
    assert codes in ([0, 0], [0, 1]), told
    assert [line.split()[0] for line in calls(folder)] == ["1", "2", "3"]


def test_a_store_of_a_later_version_is_refused_and_left_alone(folder: Path) -> None:
    (folder / "go").touch()
    outputs(afl_warm(*chain(folder), folder=folder))
    file = folder / ".afl" / "afl.db"
    database = sqlite3.connect(file)
    versions = [
        name for (name,) in database.execute("select name from sqlite_master where name like '%schema%'")
    ]
    database.execute(f"update {versions[0]} set version = 999")
    database.commit()
    database.close()
    done = afl_warm(*chain(folder), folder=folder)
    assert (done.code, done.out) == (1, "")
    assert "has version 999" in done.err and "upgrade agentflow-afl" in done.err


def test_a_damaged_store_is_told(folder: Path) -> None:
    (folder / "go").touch()
    outputs(afl_warm(*chain(folder), folder=folder))
    file = folder / ".afl" / "afl.db"
    for extra in (".afl/afl.db-wal", ".afl/afl.db-shm"):
        (folder / extra).unlink(missing_ok=True)
    damaged = bytearray(file.read_bytes())
    damaged[100:8192] = b"\xff" * 8092
    file.write_bytes(damaged)
    done = afl_warm(*chain(folder), folder=folder)
    assert (done.code, done.out) == (1, "")
    assert "Traceback" not in done.err
    assert "afl.db" in done.err and "damaged" in done.err


def test_a_run_on_postgresql(folder: Path, postgres_database: str) -> None:
    store = ("--store", postgres_database)
    paused = outputs(afl_warm("run", "chain.afl", "-i", "n=1", *store, folder=folder))
    (folder / "go").touch()
    done = afl_warm("resume", paused["run"], "--agent", "agents.py", *store, folder=folder)
    assert outputs(done) == {"y": 4}
    assert "✓ c = t.Work" in afl_warm("show", *store, folder=folder).out
    assert not (folder / ".afl").exists()
