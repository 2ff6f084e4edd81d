"""The agents' figures: wake-up, takeover, drain, resumes, idling."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from afl.kernel.clock import wall_ms
from afl.kernel.ids import sortable_id
from afl.runtime.agent import ToolRegistry
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.store import open_store
from afl.runtime.telemetry import Telemetry
from afl.runtime.topics import run_topic
from afl.runtime.types import WorkflowId
from afl.runtime.worker.evaluations import Evaluations
from bench import programs
from bench.place import Place
from bench.raw_wakeup import Enqueuer
from bench.report import Report, seconds

PINGS = 30
WAKEUP_ROUNDS = 4
TASKS = 2_000


def measure(report: Report, place: Place) -> None:
    """Every figure of the agents."""
    postgres = place.server("postgres")
    drain(report, "SQLite", place.sqlite(), raw_sqlite_loop(place.folder), bar=0.5)
    drain(report, "PostgreSQL", postgres, raw_postgres_loop(postgres), bar=2)
    resumes(report, place.sqlite())
    wakeups(report, "SQLite", place.sqlite())
    wakeups(report, "PostgreSQL", postgres)
    wakeups(report, "PostgreSQL and NATS", postgres, place.server("nats"))
    silenced(report, "PostgreSQL", postgres)
    idling(report, "SQLite", place.sqlite())
    idling(report, "PostgreSQL", postgres)
    takeover(report, "SQLite", place.sqlite(), bar=2, kills=10)
    takeover(report, "PostgreSQL", postgres, bar=2, kills=10)
    takeover(report, "MongoDB", place.server("mongo"), bar=12, kills=2)


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of the bench that said it was ready; killed at the end."""
    with subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"
        try:
            yield child
        finally:
            child.kill()


def wakeups(report: Report, name: str, url: str, server: str = "") -> None:
    """From enqueueing to the start of the handler, in an idle worker of another process, against the drivers alone.

    Both are asked in turn, a few times each, since the speed of a machine changes within minutes; while one is asked
    the other process does not run. Whoever enqueues then waits at a pipe, and takes no time from those it woke.
    """
    open_store(url).close()
    raw: list[int] = []
    ours: list[int] = []
    for _ in range(WAKEUP_ROUNDS):
        raw += _raw_wakeups(url, server)
        ours += _our_wakeups(url, server or "auto")
    for title, at, bar in (("p50", 50, 2), ("p95", 95, 3)):
        limit, value = _percentile(raw, at), _percentile(ours, at)
        detail = f"{value / 1e6:.2f} ms, raw {limit / 1e6:.2f} ms"
        report.add(f"{name}: wake-up {title} / raw", value / limit, "at_most", bar, detail)


def _percentile(values: list[int], at: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[at - 1]


def _pause() -> None:
    """Long enough for the other side to be idle again, and never in step with it."""
    time.sleep(random.uniform(0.03, 0.06))


def _raw_wakeups(url: str, server: str) -> list[int]:
    enqueuer = Enqueuer(url, server)
    with process("bench.raw_wakeup", url, *([server] if server else [])) as child:
        taken = _ping(child, enqueuer.enqueue, PINGS)
    enqueuer.close()
    return taken


def _our_wakeups(url: str, doorbell: str, poll_ms: int = 60_000, count: int = PINGS) -> list[int]:
    store = open_store(url, doorbell=doorbell)
    with process("bench.worker_process", url, doorbell, str(poll_ms)) as child:
        taken = _ping(child, lambda: store.save_task(_task("bench.Ping")), count)
        # What this worker left unfinished, the next one would begin with.
        while store.find_tasks(name="bench.Ping", state=TaskState.RUNNING):
            time.sleep(0.01)
    store.close()
    return taken


def _ping(child: subprocess.Popen[str], enqueue: Callable[[], None], count: int) -> list[int]:
    """How many nanoseconds it takes until the other process says that it was woken."""
    assert child.stdout is not None
    taken = []
    for _ in range(count):
        _pause()
        begin = time.monotonic_ns()
        enqueue()
        taken.append(int(child.stdout.readline()) - begin)
    return taken


def _task(name: str, data: dict[str, str] | None = None) -> TaskDefinition:
    now = wall_ms()
    return TaskDefinition(sortable_id(), name, "", "", "", "", created=now, updated=now, data=data or {})


def silenced(report: Report, name: str, url: str) -> None:
    """Without a doorbell the poll interval bounds the wake-up."""
    poll_ms = 400
    worst = max(_our_wakeups(url, "none", poll_ms, count=8))
    detail = f"at most {worst / 1e6:.0f} ms at a poll interval of {poll_ms} ms"
    report.add(f"{name}: silenced wake-up / poll interval", worst / 1e6 / poll_ms, "at_most", 1, detail)


def takeover(report: Report, name: str, url: str, bar: float, kills: int) -> None:
    """From kill -9 of a runner to its task running elsewhere."""
    store = open_store(url)
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(kills):
            with (
                process("bench.worker_process", url) as first,
                process("bench.worker_process", url) as second,
            ):
                store.save_task(_task("bench.Hold", {"folder": folder}))
                holder = _holder(Path(folder))
                victim, heir = (first, second) if holder[0] == first.pid else (second, first)
                begin = time.monotonic_ns()
                os.kill(victim.pid, signal.SIGKILL)
                pid, at = _holder(Path(folder), after=holder)
                assert pid == heir.pid
                taken.append((at - begin) / 1e9)
            _end_all(store, folder)
    store.close()
    value = _percentile([round(each * 1e9) for each in taken], 95) / 1e9 if kills > 1 else taken[0]
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
    for task in store.find_tasks(name="bench.Hold", limit=1000):
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
        Evaluations(evaluator, None, lambda workflow_id: False).evaluate(run)
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
    """At the doorbell: to look again and again would take time from those who work."""
    with store.listen([run_topic(run)]) as ear:
        while (found := store.get_run(run)) is None or not found.is_over:
            ear.wait(1)


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
        before = _cpu_seconds(child.pid)
        time.sleep(10)
        used = (_cpu_seconds(child.pid) - before) / 10 * 100
    report.add(f"{name}: idle runner, % of a core", used, "at_most", 1)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def raw_postgres_loop(url: str) -> Callable[[int], float]:
    """A single-row SKIP LOCKED claim-and-complete loop; rows per second."""

    def loop(size: int) -> float:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop table if exists raw_queue")
            connection.execute("create table raw_queue (id bigserial primary key, state text not null)")
            connection.execute("create index on raw_queue (id) where state = 'pending'")
            connection.execute(
                "insert into raw_queue (state) select 'pending' from generate_series(1, %s)", [size]
            )

            def work() -> None:
                while row := connection.execute(
                    "update raw_queue set state = 'running' where id = (select id from raw_queue "
                    "where state = 'pending' order by id limit 1 for update skip locked) returning id"
                ).fetchone():
                    connection.execute("update raw_queue set state = 'done' where id = %s", row)

            return size / seconds(work)

    return loop


def raw_sqlite_loop(folder: Path) -> Callable[[int], float]:
    """The same on SQLite, each statement a commit of its own."""

    def loop(size: int) -> float:
        connection = sqlite3.connect(folder / "raw_queue.db", isolation_level=None)
        for statement in (
            "pragma journal_mode = wal",
            "pragma synchronous = full",
            "drop table if exists raw_queue",
            "create table raw_queue (id integer primary key, state text not null)",
            "create index raw_queue_pending on raw_queue (id) where state = 'pending'",
            "begin",
        ):
            connection.execute(statement)
        connection.executemany("insert into raw_queue (state) values (?)", [("pending",)] * size)
        connection.execute("commit")

        def work() -> None:
            while row := connection.execute(
                "update raw_queue set state = 'running' where id = (select id from raw_queue "
                "where state = 'pending' order by id limit 1) returning id"
            ).fetchall():
                connection.execute("update raw_queue set state = 'done' where id = ?", row[0])

        took = seconds(work)
        connection.close()
        return size / took

    return loop
