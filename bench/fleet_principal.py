"""The principal's figures: what it costs when nothing happens, from trigger to first task, lines from end to end."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from afl.fleet.client import AsyncClient, Client
from afl.fleet.messages import Status
from afl.fleet.requests import FetchRun, GetLogs, GetRun, Heartbeat, ListAgents, RunWorkflow, WatchRun
from afl.fleet.settings import FleetSettings
from bench.place import Place
from bench.report import Report, median_of_rounds, seconds

AGENTS, IDLE_SECONDS = 50, 10
TRIGGERS = 60
LINES = 100_000
_STAMP = "name: Stamp\ntasks: {t: {name: T, config: !Subprocess {cmd: date, args: ['+%s%N']}}}\n"
_LINES_ARGV = ("seq", "-f", "line %08.0f of what one task has to say", str(LINES))
_AGENT = "import asyncio; from afl.fleet.agent import Agent; from afl.fleet.settings import load_fleet_settings as s; "
_AGENT += "asyncio.run(Agent(s()).run())"


def measure_principal(report: Report, place: Place) -> None:
    """Every figure that needs a principal."""
    with principal(Path(mkdtemp(prefix="principal-", dir=place.folder))) as (settings, pid):
        idle(report, settings, pid)
        with agent(settings):
            triggers(report, settings)
            lines(report, settings, place.folder)


@contextmanager
def principal(folder: Path) -> Iterator[tuple[FleetSettings, int]]:
    """One in a process of its own; its settings and process id."""
    (folder / "workflows").mkdir()
    (folder / "workflows" / "stamp.yml").write_text(_STAMP)
    argv = ", ".join(f"'{word}'" for word in _LINES_ARGV[1:])
    task = f"{{name: T, config: !Subprocess {{cmd: seq, args: [{argv}]}}}}"
    (folder / "workflows" / "lines.yml").write_text(f"name: Lines\ntasks: {{t: {task}}}\n")
    settings = FleetSettings(
        principal_port=0,
        logs_listening_port=0,
        logs_publishing_port=0,
        app_data_directory=str(folder),
        db_path=str(folder / "app.db"),
        workflow_dir=str(folder / "workflows"),
    )
    process = _started(["-m", "afl.fleet.principal"], settings, subprocess.PIPE)
    assert process.stdout is not None
    ready = process.stdout.readline()
    port = int(ready.partition("tcp://127.0.0.1:")[2].split()[0])
    try:
        yield FleetSettings(principal_port=port, app_data_directory=str(folder)), process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def agent(settings: FleetSettings) -> Iterator[None]:
    """A real agent, registered."""
    process = _started(["-c", _AGENT], settings, subprocess.DEVNULL)
    try:
        with Client(settings) as client:
            before = len(client.call(ListAgents()))
            while len(client.call(ListAgents())) == before:
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def idle(report: Report, settings: FleetSettings, pid: int) -> None:
    """The share of a core that it takes while 50 agents wait for work and say that they live."""
    share = asyncio.run(_idle(settings, pid))
    report.add(f"principal, {AGENTS} agents, idle: % of a core", share, "at_most", 10)


def triggers(report: Report, settings: FleetSettings) -> None:
    """From the request to the moment the task's own program runs, against starting that program."""
    bare, fleet = [], []
    with Client(settings) as client:
        for _ in range(TRIGGERS):
            begin = time.time_ns()
            bare.append(int(asyncio.run(_spawned())) - begin)
            begin = time.time_ns()
            run_id = client.call(RunWorkflow(workflow_id="stamp")).run_id
            page = client.call(GetLogs(run_id=run_id, wait_ms=10_000))
            fleet.append(int(page.lines[0].payload.split()[-1]) - begin)
            _until_ended(client, run_id)
    value = statistics.median(fleet) / statistics.median(bare)
    detail = f"{statistics.median(fleet) / 1e6:.2f} ms, bare {statistics.median(bare) / 1e6:.2f} ms"
    report.add("trigger to first task / bare spawn, p50", value, "at_most", 5, detail)


def lines(report: Report, settings: FleetSettings, folder: Path) -> None:
    """From the start of the run until every line is in the principal's store and the run's end too."""
    costs: list[float] = []
    runs: list[str] = []
    with Client(settings) as client:

        def run() -> None:
            runs.append(client.call(RunWorkflow(workflow_id="lines")).run_id)
            _until_ended(client, runs[-1])

        def ratio() -> float:
            limit = seconds(lambda: _to_file(folder / "lines.txt"))
            costs.append(seconds(run))
            _check_lines(client, runs[-1])
            return limit / costs[-1]

        run()
        value = median_of_rounds(7, ratio)
    detail = f"{LINES / statistics.median(costs):,.0f} lines/s"
    report.add(f"{LINES:,} lines to the principal / to a file", value, "at_least", 0.3, detail)


def _check_lines(client: Client, run_id: str) -> None:
    """Every line, once and in order."""
    number, position = 0, 0
    while number < LINES:
        page = client.call(GetLogs(run_id=run_id, after=position, limit=10_000))
        for line in page.lines:
            number += 1
            if line.payload != f"STDOUT line {number:08} of what one task has to say":
                raise SystemExit(f"line {number} is {line.payload!r}")
        position = page.position
    if client.call(GetLogs(run_id=run_id, after=position)).lines:
        raise SystemExit(f"there are more than {LINES} lines")


async def _idle(settings: FleetSettings, pid: int) -> float:
    async with AsyncClient(settings) as client:

        async def one(name: str) -> None:
            async def fetch() -> None:
                while True:
                    await client.call(FetchRun(name, name, 10_000, ()))

            async def beat() -> None:
                while True:
                    await client.call(Heartbeat(agent_id=name, incarnation=name, slots=5, wait_ms=5_000))

            await asyncio.gather(fetch(), beat())

        agents = [asyncio.create_task(one(f"a{number}")) for number in range(AGENTS)]
        await asyncio.sleep(2)
        before = _processor_seconds(pid)
        await asyncio.sleep(IDLE_SECONDS)
        used = _processor_seconds(pid) - before
        for task in agents:
            task.cancel()
        await asyncio.gather(*agents, return_exceptions=True)
    return used / IDLE_SECONDS * 100


async def _spawned() -> bytes:
    process = await asyncio.create_subprocess_exec("date", "+%s%N", stdout=-1, stderr=-1)
    output, _ = await process.communicate()
    return output


def _until_ended(client: Client, run_id: str) -> None:
    run = client.call(GetRun(run_id)).run
    while not run.status.is_final:
        run = client.call(WatchRun(run_id, run.version, 10_000)).run
    if run.status is not Status.COMPLETED:
        raise SystemExit(f"the bench run ended {run.status}: {run.error}")


def _to_file(path: Path) -> None:
    with path.open("wb") as file:
        subprocess.run(_LINES_ARGV, stdout=file, check=True)
        os.fsync(file.fileno())


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _started(arguments: list[str], settings: FleetSettings, stdout: int) -> subprocess.Popen[str]:
    variables = {
        "CDKTR_PRINCIPAL_PORT": str(settings.principal_port),
        "CDKTR_LOGS_LISTENING_PORT": str(settings.logs_listening_port),
        "CDKTR_LOGS_PUBLISHING_PORT": str(settings.logs_publishing_port),
        "CDKTR_APP_DATA_DIRECTORY": settings.app_data_directory,
        "CDKTR_DB_PATH": settings.db_path,
        "CDKTR_WORKFLOW_DIR": settings.workflow_dir,
    }
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=stdout, text=True, env={**os.environ, **variables}
    )
