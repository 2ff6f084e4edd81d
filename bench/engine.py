"""The engine's figures: steps per second, latency, memory, resume, compile."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from afl.language import compile_source
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.store import open_store
from afl.runtime.stores.sql_store import task_rows
from afl.runtime.task_handlers.handler import Handlers
from bench import programs
from bench.place import Place
from bench.raw import Raw, RawPostgres, RawSqlite, commit_seconds
from bench.report import Report, median_of_rounds, seconds

HANDLERS = Handlers.of({"Work": lambda n: {"m": n}})
MEGABYTE = 1024 * 1024


def measure(report: Report, place: Place) -> None:
    """Every figure of the engine."""
    postgres = place.server("postgres")
    sqlite_raw, postgres_raw = RawSqlite(place.folder), RawPostgres(postgres)
    throughput(report, "SQLite", place.sqlite(), sqlite_raw, plain=0.4, event=0.08)
    throughput(report, "PostgreSQL", postgres, postgres_raw, plain=1.0, event=0.12)
    latency(report, "SQLite", place.sqlite(), sqlite_raw, plain=6, event=12)
    latency(report, "PostgreSQL", postgres, postgres_raw, plain=5, event=12)
    attempts(report, "SQLite", place.sqlite())
    attempts(report, "PostgreSQL", postgres)
    scaling(report, place.sqlite)
    resume(report, place.sqlite)
    memory(report, place.folder)
    compiling(report)


class Bench:
    """One store, and a runner with an in-process handler on it."""

    def __init__(self, store: PersistenceAPI) -> None:
        self.store = store
        self.evaluator = Evaluator(store)
        self.runner = LocalRunner(self.evaluator, HANDLERS)

    def program(self, source: str) -> Program:
        """The program, prepared; its bodies are built by a first use outside the measurement."""
        return self.evaluator.programs.of("W", programs.compiled(source))

    def run(self, program: Program, inputs: dict[str, Any] | None = None) -> None:
        """Submit and finish one run."""
        result = self.runner.run(program, inputs)
        if result.status != ExecutionStatus.COMPLETED:
            raise SystemExit(f"the bench run ended {result.status}: {result.error}")


def scaling(report: Report, url: Callable[[], str]) -> None:
    """Microseconds per step must not grow with the size of the run."""
    shapes: dict[str, Callable[[int], tuple[str, dict[str, Any] | None]]] = {
        "chain": lambda size: (programs.chain(size), None),
        "fan-out": lambda size: (programs.fan_out(size), None),
        "foreach": lambda size: (programs.foreach(), {"xs": list(range(size // 2))}),
    }
    for shape, make in shapes.items():
        costs = {}
        for size, repeats in ((200, 5), (2_000, 5), (20_000, 5)):
            bench = Bench(open_store(url()))
            source, inputs = make(size)
            program = bench.program(source)
            bench.run(program, inputs)
            runs = [seconds(lambda b=bench, p=program, i=inputs: b.run(p, i)) for _ in range(repeats)]
            costs[size] = min(runs) / size * 1e6
            bench.store.close()
        detail = ", ".join(f"{size}: {cost:.0f} µs" for size, cost in costs.items())
        report.add(f"{shape}: µs/step at 20,000 / at 200", costs[20_000] / costs[200], "at_most", 1.5, detail)


def throughput(report: Report, name: str, url: str, raw: Raw, plain: float, event: float) -> None:
    """A chain of 1,000 steps against as many one-row commits."""
    bench = Bench(open_store(url))
    for kind, facet, bar in (("plain", "Plain", plain), ("event", "Work", event)):
        program = bench.program(programs.chain(1000, facet))
        bench.run(program)
        costs: list[float] = []

        def ratio(program: Program = program, costs: list[float] = costs) -> float:
            limit = commit_seconds(raw, 1000)
            costs.append(seconds(lambda: bench.run(program)) / 1000)
            return limit / costs[-1]

        value = median_of_rounds(5, ratio)
        detail = f"{statistics.median(costs) * 1e6:.0f} µs/step"
        report.add(f"{name}: {kind} chain / raw commits", value, "at_least", bar, detail)
    bench.store.close()


def attempts(report: Report, name: str, url: str) -> None:
    """A chain whose attempts are recorded against one whose are not, in alternating rounds."""
    bench = Bench(open_store(url))
    program = bench.program(programs.chain(1000, "Work"))
    bench.run(program)

    def ratio() -> float:
        recorded = seconds(lambda: bench.run(program))
        with mock.patch.object(task_rows, "ended_attempts", return_value=[]):
            return recorded / seconds(lambda: bench.run(program))

    report.add(f"{name}: event chain with attempts / without", median_of_rounds(7, ratio), "at_most", 1.1)
    bench.store.close()


def latency(report: Report, name: str, url: str, raw: Raw, plain: float, event: float) -> None:
    """Three steps from submit to result, one run after another, against three one-row commits."""
    bench = Bench(open_store(url))
    for kind, facet, bar in (("plain", "Plain", plain), ("event", "Work", event)):
        program = bench.program(programs.chain(3, facet))
        bench.run(program)
        limits, runs = [], []
        for _ in range(400):
            limits.append(seconds(lambda: [raw.commit() for _ in range(3)]))
            runs.append(seconds(lambda p=program: bench.run(p)))
        value = statistics.median(runs) / statistics.median(limits)
        detail = f"p50 {statistics.median(runs) * 1e3:.2f} ms, raw {statistics.median(limits) * 1e3:.2f} ms"
        report.add(f"{name}: three {kind} steps / three commits", value, "at_most", bar, detail)
    bench.store.close()


def resume(report: Report, url: Callable[[], str]) -> None:
    """Resuming after one of many foreach tasks costs what it costs after one of few."""
    costs = {}
    for size in (100, 10_000):
        bench = Bench(open_store(url()))
        compiled = programs.compiled(programs.foreach("Work"))
        run = bench.evaluator.execute(compiled["workflows"][0], {"xs": list(range(size))}, compiled)
        tasks = bench.store.claim_tasks(["Work"], limit=60)
        times = []
        for task in tasks:
            bench.evaluator.continue_step(task.step_id, {"m": 1}, task=task)
            times.append(seconds(lambda b=bench, r=run: b.evaluator.resume(r.workflow_id)))
        costs[size] = statistics.median(times)
        bench.store.close()
    detail = ", ".join(f"of {size}: {cost * 1e3:.2f} ms" for size, cost in costs.items())
    report.add(
        "resume after one of 10,000 / of 100 tasks", costs[10_000] / costs[100], "at_most", 1.3, detail
    )


def compiling(report: Report) -> None:
    """Compiling is linear."""
    costs = {}
    for size, repeats in ((1_000, 5), (10_000, 2)):
        source = programs.chain(size)
        costs[size] = min(seconds(lambda s=source: compile_source(s)) for _ in range(repeats)) / size
    detail = ", ".join(f"{size}: {cost * 1e6:.0f} µs" for size, cost in costs.items())
    report.add("compile: per statement 10,000 / 1,000", costs[10_000] / costs[1_000], "at_most", 1.3, detail)


def memory(report: Report, folder: Path) -> None:
    """A run of 100,000 steps in a process of its own."""
    script = (
        "import resource, sys\n"
        "from bench.engine import Bench, programs, open_store\n"
        "bench = Bench(open_store(sys.argv[1]))\n"
        "bench.run(bench.program(programs.foreach()), {'xs': list(range(33_334))})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    url = f"sqlite:///{folder}/memory.db"
    answer = subprocess.run([sys.executable, "-c", script, url], check=True, capture_output=True, text=True)
    peak = int(answer.stdout) * 1024 / MEGABYTE
    report.add(
        "run of 100,000 steps: peak MiB", peak, "at_most", 1024, "33,334 elements: block, step and yield each"
    )
