"""The figures of the client: waking up whoever awaits a run, and what a thousand waiters cost."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from afl.kernel.clock import wall_ms
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.history import HistoryEvent, HistoryKind
from afl.runtime.store import open_store
from bench import programs
from bench.place import Place
from bench.raw_wakeup import Enqueuer
from bench.report import Report

WAITERS, PINGS, ROUNDS = 1_000, 30, 4
SOURCE = """
event facet Work() => (n: Long)
workflow W() => (n: Long) andThen {
    a = Work()
    yield W(n = a.n)
}
"""


def measure(report: Report, place: Place) -> None:
    """Every figure of the client."""
    for name, url in (("SQLite", place.sqlite()), ("PostgreSQL", place.server("postgres"))):
        with_one(report, name, url)
        with_many(report, name, url)


def held_runs(store: PersistenceAPI, count: int) -> list[RunDefinition]:
    """Runs that this process holds, so that one commit ends each."""
    evaluator = Evaluator(store)
    program = evaluator.programs.of("W", programs.compiled(SOURCE))
    evaluator.programs.store(program)
    runs = []
    for _ in range(count):
        run = evaluator.new_run(program, {})
        run.state, run.owner, run.epoch = RunnerState.RUNNING, store.owner_id, 1
        store.commit(IterationChanges(run=run, new_run=True))
        runs.append(run)
    return runs


def end(store: PersistenceAPI, run: RunDefinition) -> None:
    """The commit that ends a run."""
    run.state, run.ended, run.owner, run.settled = RunnerState.COMPLETED, wall_ms(), "", True
    run.outputs = {"n": 1}
    store.commit(IterationChanges(run=run, history=[HistoryEvent(HistoryKind.RUN_COMPLETED, run.ended)]))


def with_one(report: Report, name: str, url: str) -> None:
    """From the beginning of the commit that ends a run to `result()` in another process, and the same by the driver."""
    store = open_store(url)
    raw, ours = Enqueuer(url), list[float]()
    limit = list[float]()
    with (
        subprocess.Popen(
            [sys.executable, "-m", "bench.raw_wakeup", url], stdout=subprocess.PIPE, text=True
        ) as waiter,
        subprocess.Popen(
            [sys.executable, "-m", "bench.client_process", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as client,
    ):
        assert waiter.stdout and client.stdout and client.stdin
        assert waiter.stdout.readline().strip() == client.stdout.readline().strip() == "ready"
        for run in held_runs(store, PINGS * ROUNDS):
            limit.append(_latency(raw.enqueue, waiter.stdout.readline))
            print(run.workflow_id, file=client.stdin, flush=True)
            assert client.stdout.readline().strip() == "waits"
            ours.append(_latency(lambda run=run: end(store, run), client.stdout.readline))  # type: ignore[misc]
        waiter.kill()
        client.kill()
    raw.close()
    store.close()
    ratio = statistics.median(ours) / statistics.median(limit)
    detail = f"{statistics.median(ours) * 1000:.2f} ms; raw {statistics.median(limit) * 1000:.2f} ms"
    if name == "PostgreSQL":
        report.add(f"{name}: commit to result() / raw wake-up, p50", ratio, "at_most", 2, detail)
    else:
        report.note(f"{name}: commit to result() / raw wake-up, p50", f"{ratio:.2f}; {detail}")


def _latency(commit: Callable[[], None], told: Callable[[], str]) -> float:
    time.sleep(0.005)
    begun = time.monotonic_ns()
    commit()
    return (int(told()) - begun) / 1e9


def with_many(report: Report, name: str, url: str) -> None:
    """A process with a thousand waiters, while this one ends their runs one after another."""
    store = open_store(url)
    runs = held_runs(store, WAITERS)
    command = [sys.executable, "-m", "bench.client_process", url, str(WAITERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout and client.stdout.readline().strip() == "ready"
        for run in runs:
            end(store, run)
        last = time.monotonic_ns()
        threads, memory, known = map(int, client.stdout.readline().split())
    store.close()
    report.add(f"{name}: threads of a process with {WAITERS:,} waiters", threads, "at_most", 5)
    report.add(f"{name}: KiB per waiter", memory / WAITERS, "at_most", 10)
    report.note(f"{name}: the last of {WAITERS:,} results", f"{(known - last) / 1e6:.1f} ms after its commit")
