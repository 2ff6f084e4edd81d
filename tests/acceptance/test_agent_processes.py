"""`afl agent` and `afl runner` as processes: modules that do not load, names, reloading, status, several together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest
from support.command_line import environment
from support.eventually import eventually
from support.warm_processes import Warm, WarmPopen, WarmProcesses, afl_warm
from support.workshop import SOURCE, Workshop, opened

from afl.runtime.entities import ServerState
from afl.runtime.types import WorkflowId

PORT = 18080
PAIR = """namespace p {
    event facet Left(n: Long) => (m: Long, pid: Long)
    event facet Right(n: Long) => (m: Long, pid: Long)
    workflow Both(n: Long) => (m: Long, left: Long, right: Long) andThen {
        a = Left(n = $.n)
        b = Right(n = a.m)
        c = Left(n = b.m)
        yield Both(m = c.m, left = c.pid, right = b.pid)
    }
    facet Pure(n: Long) => (m: Long) andThen { yield Pure(m = $.n * 10) }
    workflow Plain(n: Long) => (m: Long) andThen {
        a = Pure(n = $.n)
        b = Pure(n = a.m)
        yield Plain(m = b.m)
    }
}
"""


@pytest.fixture
def workshop(tmp_path: Path, warm: WarmProcesses) -> Iterator[Workshop]:
    with opened(tmp_path, f"sqlite:///{tmp_path / 'afl.db'}", warm, SOURCE + PAIR) as workshop:
        yield workshop
        warm.end_all()


# -- modules that do not load -------------------------------------------------------------------------------------


def test_a_module_that_does_not_import_says_where(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import json\n\nlimit = json.loads('[1')\n")
    done = afl_warm("agent", "bad.py", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "agent module bad.py cannot be imported: JSONDecodeError" in done.err
    assert "3 | limit = json.loads('[1')" in done.err.replace("\n", "")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def work(:\n", "agent module bad.py cannot be imported: SyntaxError: "),
        ("import no_such_module\n", "agent module bad.py cannot be imported: ModuleNotFoundError: "),
        ("x = 1\n", "agent module bad.py has no handlers; a handler is a function like this one:"),
        (
            "from afl import handler\n@handler('t.A')\ndef a(): ...\n@handler('t.A')\ndef b(): ...\n",
            "agent module bad.py: there are two handlers for t.A",
        ),
    ],
)
def test_a_module_that_cannot_serve_says_why(workshop: Workshop, text: str, problem: str) -> None:
    (workshop.folder / "bad.py").write_text(text)
    agent = workshop.afl("agent", "bad.py", "--store", workshop.url)
    assert agent.wait() == 1
    assert problem in agent.said()
    assert "Traceback" not in agent.said()


def test_a_module_that_is_not_there_says_so(workshop: Workshop) -> None:
    agent = workshop.afl("agent", "nowhere.py", "--store", workshop.url)
    assert agent.wait() == 1
    assert "agent module nowhere.py does not exist" in agent.said()


# -- names --------------------------------------------------------------------------------------------------------


def serving(agent: Warm, workshop: Workshop, name: str) -> None:
    """Return once a server of that name is registered as running by this process."""

    def registered() -> bool:
        servers = workshop.store.get_servers_by_state(ServerState.RUNNING)
        words = [workshop.store.describe(each.manager) for each in servers if each.server_name == name]
        return any(f"process {agent.pid} on " in each for each in words)

    eventually(registered, agent.said)


def test_two_servers_with_one_name_both_work_and_the_second_is_told(workshop: Workshop) -> None:
    first = workshop.agent("--name", "twin")
    serving(first, workshop, "twin")
    second = workshop.agent("--name", "twin")
    serving(second, workshop, "twin")
    assert "another afl-agent named twin runs already" in second.said()
    assert f"process {first.pid} on " in second.said()
    assert "another afl-agent" not in first.said()
    first.kill()
    third = workshop.agent("--name", "other")
    serving(third, workshop, "other")
    assert "another afl-agent" not in third.said()
    assert workshop.wait_completed(workshop.submit("t.One", n=4))["m"] == 8
    assert [second.terminate(), third.terminate()] == [0, 0]


# -- several together ---------------------------------------------------------------------------------------------

SIDE = """import os

from afl import handler


@handler("p.{side}")
async def work(n: int) -> dict:
    return {{"m": n + {step}, "pid": os.getpid()}}
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_agents_with_different_facets_finish_one_run(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest, warm: WarmProcesses
) -> None:
    url = f"sqlite:///{tmp_path / 'afl.db'}"
    if kind == "postgres":
        url = request.getfixturevalue("postgres_database")
    (tmp_path / "left.py").write_text(SIDE.format(side="Left", step=1))
    (tmp_path / "right.py").write_text(SIDE.format(side="Right", step=10))
    with opened(tmp_path, url, warm, PAIR) as workshop:
        # They poll once an hour: what wakes them is the notifier, and no notification may be lost.
        left, right = (
            workshop.afl("agent", f"{side}.py", "--store", url, AFL_POLL_INTERVAL_MS="3600000")
            for side in ("left", "right")
        )
        run = workshop.submit("p.Both", n=0)
        outputs = workshop.wait_completed(run)
        assert outputs == {"m": 12, "left": left.pid, "right": right.pid}
        assert [(task.deliveries, task.deaths) for task in workshop.tasks(run)] == [(1, 0)] * 3
        assert [left.terminate(), right.terminate()] == [0, 0]


def test_the_runner_module_serves_a_run_that_needs_no_agent(workshop: Workshop) -> None:
    runner = workshop.afl("-m", "--store", workshop.url, "--port", "0", "--server-name", "module")
    serving(runner, workshop, "module")
    assert workshop.wait_completed(workshop.submit("p.Plain", n=3)) == {"m": 300}
    assert runner.terminate() == 0
    (server,) = workshop.store.get_all_servers()
    assert (server.service_name, server.state) == ("afl-runner", ServerState.SHUTDOWN)


def test_python_m_starts_the_runner(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "afl.runtime.runner", "--help"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and "--max-concurrent" in done.stdout


def test_the_status_of_a_runner_is_on_http(workshop: Workshop) -> None:
    name = f"status-{uuid4().hex}"
    fixed = ("--http-port", str(PORT), "--store", workshop.url)
    runner = workshop.afl("runner", "--agent", "agents.py", "--name", name, *fixed)
    assert workshop.wait_completed(workshop.submit("t.One", n=1))["m"] == 2
    port = port_of(name)
    assert port is not None
    assert fetched(port, "health") == {"ok": True}
    eventually(lambda: fetched(port, "status")["handled"].get("t.Work", {}).get("handled") == 1, runner.said)
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        metrics = answer.read().decode().splitlines()
    assert "afl_runner_up 1" in metrics
    assert 'afl_runner_tasks_total{facet="t.Work",outcome="handled"} 1' in metrics
    assert runner.terminate() == 0
    assert port_of(name) is None


def port_of(name: str) -> int | None:
    """The port of the runner of that name: the first that was free."""
    for port in range(PORT, PORT + 20):
        try:
            if fetched(port, "status")["config"]["server_name"] == name:
                return port
        except OSError:
            continue
    return None


def fetched(port: int, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
        return json.load(answer)


# -- reloading ----------------------------------------------------------------------------------------------------

VERSION = """from afl import handler


@handler("t.Work")
def work(n):
    return {{"m": n * {factor}, "stamp": "{factor}"}}
"""


@contextmanager
def reloading(workshop: Workshop) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """`afl agent --reload` as the command line starts it, and the file with what it prints."""
    out = workshop.folder / "reload.out"
    with (
        out.open("w") as lines,
        WarmPopen(
            ["-m", "afl", "agent", "live.py", "--reload", "--store", workshop.url],
            cwd=workshop.folder,
            env=environment(),
            stdout=lines,
            stderr=lines,
        ) as process,
    ):
        try:
            yield process, out
        finally:
            process.kill()


def stamp(workshop: Workshop, run: WorkflowId) -> str:
    return str(workshop.wait_completed(run)["stamp"])


def test_reload_serves_the_next_task_with_the_new_code(workshop: Workshop) -> None:
    live = workshop.folder / "live.py"
    live.write_text(VERSION.format(factor=2))
    with reloading(workshop) as (process, out):
        assert stamp(workshop, workshop.submit("t.One", n=1)) == "2"
        live.write_text(VERSION.format(factor=333))
        eventually(lambda: "A source changed; starting again." in out.read_text(), out.read_text)
        assert stamp(workshop, workshop.submit("t.One", n=1)) == "333"

        live.write_text("def broken(:\n")
        eventually(lambda: "Waiting for a change." in out.read_text(), out.read_text)
        assert "agent module live.py cannot be imported: SyntaxError" in out.read_text()
        run = workshop.submit("t.One", n=1)
        live.write_text(VERSION.format(factor=55555))
        assert stamp(workshop, run) == "55555"
        process.terminate()
        assert process.wait(60) == 0
    assert "Traceback" not in out.read_text()
