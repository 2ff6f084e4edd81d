"""The agents' figures: wake-up, takeover, drain, resumes, idling."""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from afl.kernel.clock import wall_ms
from afl.kernel.lease import LEASE_MS
from afl.runtime.agent import ToolRegistry
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.topics import run_topic
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.store import open_store
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import WorkflowId
from afl.runtime.worker.held_runs import HeldRuns
from bench import programs
from bench.place import Place
from bench.raw_queue import raw_postgres_loop, raw_sqlite_loop
from bench.report import Report, seconds
from bench.wakeups import new_task, percentile, process, ratio, silenced, wakeup_times, wakeups

TASKS = 2_000


def measure(report: Report, place: Place) -> None:
    """Every figure of the agents.

    Wake-ups first, on stores in which nothing has happened yet. What the drains leave behind makes them slower until
    the server has cleaned up, which it does within a minute; so that is told as well.
    """
    postgres = place.server("postgres")
    wakeups(report, "SQLite", place.sqlite())
    wakeups(report, "PostgreSQL", postgres)
    wakeups(report, "PostgreSQL and NATS", postgres, place.server("nats"))
    silenced(report, "PostgreSQL", postgres)
    drain(report, "SQLite", place.sqlite(), raw_sqlite_loop(place.folder), bar=0.5)
    drain(report, "PostgreSQL", postgres, raw_postgres_loop(postgres), bar=1.5)
    raw, ours = wakeup_times(postgres)
    report.note("PostgreSQL: wake-up p50 / raw, just after", f"{ratio(raw, ours, 50):.2f}")
    resumes(report, place.sqlite())
    idling(report, "SQLite", place.sqlite())
    idling(report, "PostgreSQL", postgres)
    takeover(report, "SQLite", place.sqlite(), bar=2, kills=10)
    takeover(report, "PostgreSQL", postgres, bar=2, kills=10)
    takeover(report, "MongoDB, lease of 10 s", place.server("mongo"), bar=12, kills=2, lease_ms=10_000)


def takeover(report: Report, name: str, url: str, bar: float, kills: int, lease_ms: int = LEASE_MS) -> None:
    """From kill -9 of a runner to its task running elsewhere; without proof of death the lease decides."""
    worker = ("bench.worker_process", url, "auto", "2000", str(lease_ms))
    store = open_store(url)
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(kills):
            with (
                process(*worker) as first,
                process(*worker) as second,
            ):
                store.save_task(new_task("bench.Hold", {"folder": folder}))
                holder = _holder(Path(folder))
                victim, heir = (first, second) if holder[0] == first.pid else (second, first)
                begin = time.monotonic_ns()
                os.kill(victim.pid, signal.SIGKILL)
                pid, at = _holder(Path(folder), after=holder)
                assert pid == heir.pid
                taken.append((at - begin) / 1e9)
            _end_all(store, folder)
    store.close()
    value = percentile([round(each * 1e9) for each in taken], 95) / 1e9 if kills > 1 else taken[0]
    detail = f"{kills} kills, p50 {statistics.median(taken):.2f} s"
    report.add(f"{name}: kill -9 to running elsewhere, p95 (s)", value, "at_most", bar, detail)


def _holder(folder: Path, after: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    while True:
        for note in folder.iterdir():
            pid, at = (int(part) for part in note.name.split("."))
            if at > after[1]:
                return pid, at
        time.sleep(0.002)


def _end_all(store: PersistenceAPI, folder: str) -> None:
    for task in store.find_tasks(TaskFilter(name="bench.Hold", limit=1000)):
        if task.state in ("pending", "running"):
            task.state, task.owner, task.updated = "canceled", "", wall_ms()
            store.save_task(task)
    for note in Path(folder).iterdir():
        note.unlink()


def drain(report: Report, name: str, url: str, raw: Callable[[int], float], bar: float) -> None:
    """One run with a foreach of event tasks through one runner, against a loop that claims and completes one by one.

    The tasks are in the queue before the clock starts, as the rows of the raw loop are. What it takes with their
    creation, by the same runner, is told beside it.
    """
    ratios, rates, whole = [], [], []
    for _ in range(3):
        limit = raw(TASKS)
        rates.append(_drain(url, TASKS, queued=True))
        ratios.append(rates[-1] / limit)
        whole.append(_drain(url, TASKS, queued=False))
    detail = f"{statistics.median(rates):,.0f} tasks/s"
    report.add(
        f"{name}: drain of {TASKS:,} tasks / raw loop", statistics.median(ratios), "at_least", bar, detail
    )
    report.note(f"{name}: the same, created too", f"{statistics.median(whole):,.0f} tasks/s")
    rate = _drain_runs(url, TASKS)
    report.note(f"{name}: {TASKS:,} runs of one task", f"{rate:,.0f} runs/s")


def _service(store: PersistenceAPI, telemetry: Telemetry | None = None) -> tuple[RunnerService, Evaluator]:
    registry = ToolRegistry()
    registry.register("Work", lambda payload: {"m": payload["n"]})
    evaluator = Evaluator(store, telemetry=telemetry)
    return RunnerService(store, evaluator, RunnerConfig(http=False, max_concurrent=10), registry), evaluator


def _drain(url: str, size: int, *, queued: bool) -> float:
    store = open_store(url)
    service, evaluator = _service(store)
    program = evaluator.programs.of("W", programs.compiled(programs.foreach("Work")))
    run = evaluator.submit(program, {"xs": list(range(size))})
    if queued:
        HeldRuns(evaluator).advance(run)
    took = _until_over(store, service, [run])
    store.close()
    return size / took


def _drain_runs(url: str, size: int) -> float:
    store = open_store(url)
    service, evaluator = _service(store)
    program = evaluator.programs.of("W", programs.compiled(programs.chain(1, "Work")))
    runs = [evaluator.submit(program) for _ in range(size)]
    took = _until_over(store, service, runs)
    store.close()
    return size / took


def _until_over(store: PersistenceAPI, service: RunnerService, runs: list[str]) -> float:
    def watch() -> None:
        for run in reversed(runs):
            _wait_for(store, WorkflowId(run))
        service.stop()

    watcher = threading.Thread(target=watch)
    watcher.start()
    took = seconds(service.start)
    watcher.join()
    failed = [run for run in runs if store.get_run(run).state != "completed"]  # type: ignore[arg-type,union-attr]
    if failed:
        raise SystemExit(f"{len(failed)} runs of the bench did not complete")
    return took


def _wait_for(store: PersistenceAPI, run: WorkflowId) -> None:
    """At the notifier: to look again and again would take time from those who work."""
    with store.subscribe([run_topic(run)]) as subscription:
        while (found := store.get_run(run)) is None or not found.is_over:
            subscription.wait(1)


def resumes(report: Report, url: str) -> None:
    """How often a run is evaluated for 1,000 answers."""
    store, telemetry = open_store(url), Telemetry()
    service, evaluator = _service(store, telemetry)
    program = evaluator.programs.of("W", programs.compiled(programs.foreach("Work")))
    run = evaluator.submit(program, {"xs": list(range(1_000))})
    _until_over(store, service, [run])
    count = sum(event.event_type == "workflow.resume" for event in telemetry.get_events())
    store.close()
    report.add("resumes for 1,000 tasks on 10 slots", count, "at_most", 120)


def idling(report: Report, name: str, url: str) -> None:
    """What a runner costs that has nothing to do."""
    open_store(url).close()
    with process("bench.worker_process", url) as child:
        before = cpu_seconds(child.pid)
        time.sleep(10)
        used = (cpu_seconds(child.pid) - before) / 10 * 100
    report.add(f"{name}: idle runner, % of a core", used, "at_most", 1)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
