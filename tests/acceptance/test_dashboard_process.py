"""`afl dashboard` as a real process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command_line import environment
from support.warm_processes import WarmPopen, afl_warm

import afl
from afl.client.http_client import HttpClient
from afl.operations.work.remote_claims import LogLine, TaskClaim
from afl.operations.work.remote_work import claim_work, heartbeat_work


@contextmanager
def dashboard(folder: Path, *args: str, **changes: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """One that runs, and the address it printed."""
    process = WarmPopen(
        ["-m", "afl", "dashboard", "--port", "0", *args],
        cwd=folder,
        env=environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end_and_lets_nobody_hang(
    tmp_path: Path, number: signal.Signals
) -> None:
    with dashboard(tmp_path) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}/health") as answer:
            assert json.load(answer)["status"] == "ok"
        with urllib.request.urlopen(f"{url}/events?topic=runs") as watched:
            assert b"retry" in watched.readline()
            process.send_signal(number)
            assert watched.read() is not None  # the stream ends
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None and "Traceback" not in process.stderr.read()
    assert (tmp_path / ".afl" / "afl.db").exists()


def test_a_command_in_another_folder_asks_it(tmp_path: Path) -> None:
    (tmp_path / "w.afl").write_text(
        "workflow W(n: Int = 1) => (n: Int) andThen {\n    yield W(n = $.n + 1)\n}\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with dashboard(tmp_path, AFL_TOKEN="let me in") as (_, url):
        known = {"AFL_SERVER": url, "AFL_TOKEN": "let me in"}
        run = afl_warm("submit", str(tmp_path / "w.afl"), folder=elsewhere, **known).out.strip()
        assert run in afl_warm("list", folder=elsewhere, **known).out
        refused = afl_warm("list", "--server", url, folder=elsewhere)
        assert refused.code == 1 and "a token is needed" in refused.err
    assert list(elsewhere.iterdir()) == []


@contextmanager
def command(folder: Path, *args: str, url: str) -> Iterator[WarmPopen]:
    """A command of `afl` that goes on while the test does."""
    process = WarmPopen(
        ["-m", "afl", *args],
        cwd=folder,
        env=environment(AFL_SERVER=url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        yield process


ASK = "event facet Ask()\nworkflow W() andThen {\n    a = Ask()\n}\n"


def test_who_waits_for_a_run_waits_for_the_server_as_well(tmp_path: Path) -> None:
    (tmp_path / "w.afl").write_text(ASK)
    with (
        dashboard(tmp_path) as (killed, url),
        command(tmp_path, "submit", "w.afl", "--wait", url=url) as waiting,
    ):
        greeting = waiting.stderr.readline()
        assert greeting.endswith("of W\n")
        killed.kill()
        assert "waiting until it is back" in waiting.stderr.readline()
        with dashboard(tmp_path, "--port", url.rpartition(":")[2]):
            assert afl_warm("cancel", greeting.split()[1], folder=tmp_path, AFL_SERVER=url).code == 0
            assert waiting.wait(60) == 1
        assert "was canceled" in waiting.stderr.read()


def test_who_follows_a_log_waits_for_the_server_as_well(tmp_path: Path) -> None:
    (tmp_path / "w.afl").write_text(ASK)
    with dashboard(tmp_path) as (killed, url):
        run = afl_warm("submit", "w.afl", folder=tmp_path, AFL_SERVER=url).out.strip()
        server = HttpClient(url)
        with afl.connect(tmp_path / ".afl" / "afl.db") as flow, flow.worker():  # which evaluates the run
            (task,) = server.call(claim_work, ["Ask"], worker="clerk", wait=20).tasks
        said = TaskClaim(task.task, task.epoch, [LogLine("hello")])
        server.call(heartbeat_work, [said], worker="clerk")
        with command(tmp_path, "logs", "--follow", run, url=url) as following:
            assert following.stdout.readline().endswith("hello\n")
            killed.kill()
            assert "waiting until it is back" in following.stderr.readline()
            with dashboard(tmp_path, "--port", url.rpartition(":")[2]):
                said = TaskClaim(task.task, task.epoch, [LogLine("goodbye")])
                server.call(heartbeat_work, [said], worker="clerk")
                assert following.stdout.readline().endswith("goodbye\n")
                assert afl_warm("cancel", run, folder=tmp_path, AFL_SERVER=url).code == 0
                assert following.wait(60) == 0
            assert following.stdout.read().endswith("attempt 1 was canceled\n")


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    refused = afl_warm("dashboard", "--host", "0.0.0.0", "--port", "0", folder=tmp_path)
    assert refused.code == 1
    assert "AFL_TOKEN" in refused.err and "afl dashboard user add" in refused.err
    assert refused.out == ""
    with dashboard(tmp_path, "--host", "0.0.0.0", AFL_TOKEN="x") as (_, url):
        assert url.startswith("http://0.0.0.0:")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = afl_warm("dashboard", "--port", port, folder=tmp_path)
    assert refused.code == 1 and f"cannot listen on 127.0.0.1 port {port}" in refused.err
