"""The fleet's figures. First the agent's own, against bare processes and a plain file; then those with a principal."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import mkdtemp

import msgspec

from afl.fleet.messages import FetchedRun, Status
from afl.fleet.reaper import Reaper
from afl.fleet.spool import Spool
from afl.fleet.spool_folder import SpoolFolder, StreamName
from afl.fleet.task_attempt import TaskResources
from afl.fleet.task_manager import TaskManager
from afl.fleet.workflow import Subprocess, Task, Workflow
from afl.fleet.workflow_json import encode_workflow
from bench.fleet_principal import measure_principal
from bench.place import Place
from bench.report import Report, median_of_rounds, seconds

WIDTH = 8
LINES = 100_000


def measure(report: Report, place: Place) -> None:
    """Every figure of the fleet."""
    reaper = Reaper(grace=1)
    try:
        bench = AgentBench(place.folder, reaper)
        wide(report, bench)
        chain(report, bench)
        lines(report, bench)
    finally:
        reaper.close()
    measure_principal(report, place)


class AgentBench:
    """An agent's task manager on a real spool, without a principal."""

    def __init__(self, folder: Path, reaper: Reaper) -> None:
        self.folder = folder
        self._reaper = reaper

    def run(self, flow: Workflow, *, durable: bool = False) -> float:
        """Seconds from the start of a run until its last task has ended, or until all of it is on the disk."""
        return asyncio.run(self._run(flow, durable))

    async def _run(self, flow: Workflow, durable: bool) -> float:
        folder = SpoolFolder(mkdtemp(prefix="spool-", dir=self.folder))
        spool = Spool(folder, StreamName("bench", "bench"))
        manager = TaskManager(spool, WIDTH, TaskResources(self._reaper))
        wire = msgspec.Raw(encode_workflow(flow).encode())
        begin = time.perf_counter()
        status = await manager.run(FetchedRun(run_id="bench", epoch=1, attempt=1, params={}, workflow=wire))
        while durable and spool.durable < spool.next - 1:
            await spool.batch(spool.durable, 1)
        took = time.perf_counter() - begin
        await spool.close()
        folder.close()
        if status is not Status.COMPLETED:
            raise SystemExit(f"the bench run ended {status}")
        return took


def wide(report: Report, bench: AgentBench) -> None:
    """200 tasks side by side against a loop that does nothing but start processes and read their pipes."""
    flow = Workflow("wide", "Wide", {f"t{number}": Task("T", Subprocess("true")) for number in range(200)})
    costs: list[float] = []

    def ratio() -> float:
        bare = asyncio.run(_bare(200, WIDTH))
        costs.append(bench.run(flow))
        return costs[-1] / bare

    bench.run(flow)
    value = median_of_rounds(9, ratio)
    detail = f"{statistics.median(costs) / 200 * 1e3:.2f} ms/task"
    report.add(f"200 tasks, width {WIDTH} / bare asyncio loop", value, "at_most", 1.3, detail)


def chain(report: Report, bench: AgentBench) -> None:
    """A task of a long chain costs what one of a short chain costs."""
    costs: dict[int, list[float]] = {100: [], 1_000: []}

    def ratio() -> float:
        for size, found in costs.items():
            found.append(bench.run(_chain(size)) / size)
        return costs[1_000][-1] / costs[100][-1]

    value = median_of_rounds(3, ratio)
    detail = ", ".join(f"{size}: {statistics.median(found) * 1e3:.2f} ms" for size, found in costs.items())
    report.add("chain: per task 1,000 / 100", value, "at_most", 1.3, detail)


def lines(report: Report, bench: AgentBench) -> None:
    """Lines of one task until all are in the spool, on the disk, against the same program writing to a file."""
    argv = ("seq", "-f", "line %08.0f of what one task has to say", str(LINES))
    flow = Workflow("lines", "Lines", {"t": Task("T", Subprocess(argv[0], argv[1:]))})
    costs: list[float] = []

    def ratio() -> float:
        limit = seconds(lambda: _to_file(argv, bench.folder / "lines.txt"))
        costs.append(bench.run(flow, durable=True))
        return limit / costs[-1]

    bench.run(flow)
    value = median_of_rounds(7, ratio)
    detail = f"{LINES / statistics.median(costs):,.0f} lines/s"
    report.add(f"{LINES:,} lines to the spool / to a file", value, "at_least", 0.3, detail)


def _chain(size: int) -> Workflow:
    tasks = {
        f"t{number}": Task("T", Subprocess("true"), depends=(f"t{number - 1}",) if number else ())
        for number in range(size)
    }
    return Workflow("chain", "Chain", tasks)


def _to_file(argv: tuple[str, ...], path: Path) -> None:
    with path.open("wb") as file:
        subprocess.run(argv, stdout=file, check=True)
        os.fsync(file.fileno())


async def _bare(count: int, width: int) -> float:
    """The limit: start, read both pipes, wait."""
    slots = asyncio.Semaphore(width)

    async def one() -> None:
        async with slots:
            process = await asyncio.create_subprocess_exec("true", stdout=-1, stderr=-1)
            await process.communicate()

    return await _timed(lambda: asyncio.gather(*(one() for _ in range(count))))


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin
