"""`afl agent` as a person uses it: it is stopped, asked twice, and told of handlers that nobody waits for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from support.command_line import environment
from support.processes import wait_until
from support.warm_processes import WarmPopen, afl_warm

from afl.runtime.entities import TaskDefinition
from afl.runtime.store import open_store

SOURCE = """event facet Work(n: Long) => (m: Long)
workflow One(n: Long) => (m: Long) andThen {
    a = Work(n = $.n)
    yield One(m = a.m)
}
"""
# It works until a file appears, however long that takes.
AGENTS = """import time
from pathlib import Path
from urllib.request import urlopen

from afl import handler


@handler("Work")
def work(n):
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return {"m": n + 1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.afl").write_text(SOURCE)
    (tmp_path / "agents.py").write_text(AGENTS)
    return tmp_path


@contextmanager
def agent(folder: Path) -> Iterator[WarmPopen]:
    """`afl agent` at work on the one task there is; its standard error goes to a file."""
    assert afl_warm("submit", "one.afl", "-i", "n=1", folder=folder).code == 0
    with (
        (folder / "told").open("w") as told,
        WarmPopen(
            ["-m", "afl", "agent", "agents.py"],
            cwd=folder,
            env=environment(),
            stderr=told,
        ) as process,
    ):
        try:
            wait_until((folder / "begun").exists, process)
            yield process
        finally:
            process.kill()


def interrupt(process: subprocess.Popen[str], folder: Path) -> None:
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "Stopping: waiting up to 30.0 s for 1 task" in (folder / "told").read_text(), process)


def the_task(folder: Path) -> TaskDefinition:
    store = open_store(f"sqlite:///{folder}/.afl/afl.db")
    try:
        (task,) = store.get_all_tasks()
        return task
    finally:
        store.close()


def test_an_interrupt_lets_the_handler_finish(folder: Path) -> None:
    with agent(folder) as process:
        interrupt(process, folder)
        (folder / "go").touch()
        assert process.wait(timeout=60) == 0
    assert (folder / "told").read_text().endswith("Stopped.\n")
    assert the_task(folder).state == "completed"


def test_a_second_interrupt_gives_the_task_back_and_nobody_died(folder: Path) -> None:
    with agent(folder) as process:
        interrupt(process, folder)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert "1 task was not done in time and will be done by others" in (folder / "told").read_text()
    task = the_task(folder)
    assert (task.state, task.deliveries, task.deaths) == ("pending", 1, 0)


def test_a_signal_that_another_thread_receives_ends_it_too(folder: Path) -> None:
    """So does one that comes just before the main thread begins to wait."""
    struck = "signal.pthread_kill(threading.get_ident(), signal.SIGTERM)\n"
    agents = AGENTS.replace("    while not", f"    {struck}    while not")
    (folder / "agents.py").write_text(f"import signal, threading\n{agents}")
    (folder / "go").touch()
    with agent(folder) as process:
        assert process.wait(timeout=60) == 0
    assert the_task(folder).state == "completed"


def test_the_servers_on_a_narrow_terminal(folder: Path) -> None:
    with agent(folder) as process:
        terminal, child = os.openpty()
        with WarmPopen(
            ["-m", "afl", "ps"],
            cwd=folder,
            env=environment(TERM="dumb", COLUMNS="60", LINES="30"),
            stdout=child,
        ) as listing:
            assert listing.wait(timeout=60) == 0
        os.close(child)
        shown = os.read(terminal, 65536).decode().splitlines()
        os.close(terminal)
        (folder / "go").touch()
        process.terminate()
        assert process.wait(timeout=60) == 0
    assert shown[0].split()[:4] == ["SERVER", "SERVICE", "HOST", "STATE"]
    assert len(shown[2].split()[0]) == 8, "the beginning of an id is enough"
    assert [line.split() for line in shown[1::2]] == [["LIST", "HANDLERS"], ["default", "Work"]]


@pytest.mark.parametrize(
    ("options", "host"), [([], "127.0.0.1"), (["--http-host", "127.0.0.2"], "127.0.0.2")]
)
def test_a_runner_says_where_its_status_is(folder: Path, options: list[str], host: str) -> None:
    with WarmPopen(
        ["-m", "afl", "runner", "--http-port", "0", *options],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        told = [process.stderr.readline() for _ in range(3)]
        port = int(told[2].rpartition(":")[2].partition("/")[0])
        assert f"status on http://{host}:{port}/status" in told[2]
        with urlopen(f"http://{host}:{port}/health") as answer:
            assert answer.status == 200
        process.terminate()
        assert process.wait(timeout=60) == 0
    assert told[0] == "afl-runner evaluates runs, and serves no facets\n"


def test_a_run_in_memory_is_not_submitted(folder: Path) -> None:
    done = afl_warm("submit", "one.afl", "-i", "n=1", "--store", "memory://", folder=folder)
    assert (done.code, done.out) == (1, "")
    assert "only this process sees a run in memory://" in done.err


def test_who_waits_is_told_that_the_run_goes_on(folder: Path) -> None:
    run = afl_warm("submit", "one.afl", "-i", "n=1", folder=folder).out.strip()
    with WarmPopen(
        ["-m", "afl", "submit", "one.afl", "-i", "n=2", "--wait"],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("run 01")
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert "continues; afl wait" in told
    assert run not in told


def test_a_worker_that_was_killed_is_not_shown_at_work(folder: Path) -> None:
    with agent(folder) as process:
        assert "▸ a = Work  working" in afl_warm("show", folder=folder).out
        process.kill()
        process.wait()
        shown = afl_warm("show", folder=folder).out
    assert "… a = Work  waiting" in shown and ", which died" in shown
