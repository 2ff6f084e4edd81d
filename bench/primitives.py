"""The figures of timers, signals and loops: what sleeping, waking, a signal and an iteration cost."""

from __future__ import annotations

import random
import statistics
import time
from itertools import pairwise
from pathlib import Path

from afl.kernel.clock import wall_ms
from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.signals import signal
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId
from bench import programs
from bench.agents import cpu_seconds
from bench.place import Place
from bench.report import Report
from bench.wakeups import percentile, process

SLEEPING, WAKING, SIGNALED = 100_000, 500, 2_000
BATCH = 500
YEAR_MS = 365 * 86_400_000
SLEEP = "workflow W(ms: Long) andThen { a = sys.Sleep(ms = $.ms) }"
SIGNAL = """
event Paid() => (n: Long) with Signal("paid")
workflow W(n: Long) => (m: Long) andThen {
    p = Paid()
    yield W(m = p.n)
}
"""
LOOP = """
event facet Work(n: Long) => (m: Long)
workflow W(until: Long) => (n: Long = 0) andThen repeat last {
    a = Work(n = last.n)
    yield W(n = a.m)
} until last.n >= $.until
"""


def measure(report: Report, place: Place) -> None:
    """Every figure of the primitives."""
    for name, url in (("SQLite", place.sqlite()), ("PostgreSQL", place.server("postgres"))):
        sleeping(report, name, url)
        waking(report, name, url)
        signals(report, name, url)
    loops(report, place.sqlite())


def begun(store: PersistenceAPI, source: str, inputs: list[dict[str, int]]) -> list[WorkflowId]:
    """Runs of a workflow, each as far as possible by itself."""
    evaluator = Evaluator(store)
    program = evaluator.programs.of("W", programs.compiled(source))
    evaluator.programs.store(program)
    runs = []
    for start in range(0, len(inputs), BATCH):
        sessions = [evaluator.begin(program, each) for each in inputs[start : start + BATCH]]
        for session in sessions:
            session.advance()
        problems = store.commit_all([session.conclude(keep=False) for session in sessions])
        assert problems == [None] * len(sessions)
        runs += [WorkflowId(session.run.workflow_id) for session in sessions]
    return runs


def sleeping(report: Report, name: str, url: str) -> None:
    """What a runner costs while many runs sleep."""
    store = open_store(url)
    begun(store, SLEEP, [{"ms": YEAR_MS + n} for n in range(SLEEPING)])
    start = time.perf_counter()
    store.index_runs(SLEEPING)  # for the search: owed to runs that began, not to those that sleep
    each = (time.perf_counter() - start) / SLEEPING * 1e6
    report.note(f"{name}: a new run indexed for the search", f"{each:,.0f} µs")
    with process("bench.worker_process", url) as child:
        time.sleep(5)  # it looks at everything once when it begins
        before = cpu_seconds(child.pid)
        time.sleep(10)
        used = (cpu_seconds(child.pid) - before) / 10 * 100
    report.add(f"{name}: idle runner, {SLEEPING:,} sleeping runs, % of a core", used, "at_most", 1)
    store.close()


def waking(report: Report, name: str, url: str) -> None:
    """How late runs wake among all that sleep on, and whether they wake in the order of their times."""
    store = open_store(url)
    waits = [3_000 + 10 * n for n in range(WAKING)]
    random.Random(1).shuffle(waits)
    start = wall_ms()
    runs = begun(store, SLEEP, [{"ms": each} for each in waits])
    due = {run: store.get_tasks_by_workflow(run)[0].deadline for run in runs}
    with process("bench.worker_process", url):
        time.sleep((3_000 + 10 * WAKING) / 1000 + 1 - (wall_ms() - start) / 1000)
    tasks = {run: store.get_tasks_by_workflow(run)[0] for run in runs}
    late = [tasks[run].updated - due[run] for run in runs]
    in_order = sorted(runs, key=lambda run: (due[run], tasks[run].updated))
    swaps = sum(tasks[a].updated > tasks[b].updated for a, b in pairwise(in_order))
    report.add(f"{name}: wake-up after a timer, p99 (ms)", percentile(late, 99), "at_most", 1000)
    report.add(f"{name}: of {WAKING:,} timers out of order", swaps, "at_most", 0)
    store.close()


def signals(report: Report, name: str, url: str) -> None:
    """Signals to runs that wait for them, by one sender."""
    store = open_store(url)
    evaluator = Evaluator(store)
    runs = begun(store, SIGNAL, [{"n": n} for n in range(SIGNALED)])
    begin = time.perf_counter()
    for run in runs:
        found = store.get_run(run)
        assert found is not None
        assert signal(evaluator, found, "paid", {"n": 1}).step
    rate = len(runs) / (time.perf_counter() - begin) * 60
    report.add(f"{name}: signals to waiting runs, per minute", rate, "at_least", 10_000)
    store.close()


def loops(report: Report, url: str) -> None:
    """What an iteration costs late in a loop, against an early one: processor time, by the handler itself."""
    times: list[float] = []

    def work(n: int) -> dict[str, int]:
        times.append(time.process_time())
        return {"m": n + 1}

    store = open_store(url)
    program = Program({"program": programs.compiled(LOOP), "workflow": "W"})
    last = 100_000
    with LocalRunner(Evaluator(store), Handlers.of({"Work": work})) as runner:
        result = runner.run(program, {"until": last})
    assert result.outputs == {"n": last}
    early = statistics.median(b - a for a, b in pairwise(times[50:150]))
    late = statistics.median(b - a for a, b in pairwise(times[-1000:]))
    detail = f"{late * 1e6:,.0f} µs of processor time"
    report.add("SQLite: an iteration at 100,000 / at 100", late / early, "at_most", 1.3, detail)
    size = Path(url.removeprefix("sqlite:///")).stat().st_size
    report.note("SQLite: the file after 100,000 iterations", f"{size / 1e6:.1f} MB")
    store.close()
