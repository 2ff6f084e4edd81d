"""Many runs at a time: in one process, through one worker, through several."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import run_topic
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId
from bench import programs
from bench.engine import Bench
from bench.place import Place
from bench.report import Report, seconds

ROUNDS = 3
THREADS = 8
RUNS = 160
QUEUED = 2_000
STEPS = 3


def measure(report: Report, place: Place) -> None:
    """Every figure of concurrent runs."""
    postgres = place.server("postgres")
    side_by_side(report, "SQLite", place.sqlite(), bar=1.0)
    side_by_side(report, "PostgreSQL", postgres, bar=1.7)
    queued(report, "SQLite", place.sqlite(), bar=1.2)
    queued(report, "PostgreSQL", postgres, bar=2.0)


def side_by_side(report: Report, name: str, url: str, bar: float) -> None:
    """Runs of three event steps, eight at a time in one process, against the same one after another."""
    store = open_store(url)
    benches = [Bench(store) for _ in range(THREADS)]
    program = benches[0].program(programs.chain(STEPS, "Work"))

    def one_after_another(bench: Bench, count: int) -> None:
        for _ in range(count):
            bench.run(program)

    def together() -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda bench: one_after_another(bench, RUNS // THREADS), benches))

    one_after_another(benches[0], THREADS)
    together()
    alone, shared = [], []
    for _ in range(ROUNDS):
        alone.append(seconds(lambda: one_after_another(benches[0], RUNS)))
        shared.append(seconds(together))
    value = statistics.median(one / eight for one, eight in zip(alone, shared, strict=True))
    detail = (
        f"{RUNS / statistics.median(shared):,.0f} runs/s, one by one {RUNS / statistics.median(alone):,.0f}"
    )
    report.add(f"{name}: eight runs at a time / one by one", value, "at_least", bar, detail)
    store.close()


def queued(report: Report, name: str, url: str, bar: float) -> None:
    """Queued runs of three event steps through worker processes, against the steps/s of one event chain."""
    store = open_store(url)
    bench = Bench(store)
    chain = bench.program(programs.chain(1000, "Work"))
    bench.run(chain)
    ratios, gains, rates = [], [], []
    for _ in range(ROUNDS):
        single = 1000 / seconds(lambda: bench.run(chain))
        rates.append(QUEUED * STEPS / _drain(store, url, 1))
        ratios.append(rates[-1] / single)
        gains.append(QUEUED * STEPS / _drain(store, url, 4) / rates[-1])
    detail = f"{statistics.median(rates):,.0f} steps/s"
    report.add(
        f"{name}: {QUEUED:,} queued runs / one event chain",
        statistics.median(ratios),
        "at_least",
        bar,
        detail,
    )
    report.add(f"{name}: four worker processes / one", statistics.median(gains), "at_least", 1.0)
    store.close()


def _drain(store: PersistenceAPI, url: str, workers: int) -> float:
    """From the start of the workers until every run has ended, in seconds."""
    bench = Bench(store)
    program = bench.program(programs.chain(STEPS, "Work"))
    runs = [bench.evaluator.submit(program) for _ in range(QUEUED)]
    with ExitStack() as stack:
        processes = [stack.enter_context(_worker(url)) for _ in range(workers)]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        begin = time.perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for run in reversed(runs):
            _wait(store, run)
        took = time.perf_counter() - begin
        for process in processes:
            process.kill()
    return took


def _wait(store: PersistenceAPI, run: WorkflowId) -> None:
    with store.subscribe([run_topic(run)]) as subscription:
        while (found := store.get_run(run)) is None or not found.is_over:
            subscription.wait(1)


def _worker(url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.queued_process", url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
