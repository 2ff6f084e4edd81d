"""Wake-ups of an idle worker in another process, against those by the drivers alone."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from afl.kernel.clock import wall_ms
from afl.kernel.ids import sortable_id
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import TaskFilter
from afl.runtime.store import open_store
from bench.raw_wakeup import Enqueuer
from bench.report import Report

PINGS = 30
WAKEUP_ROUNDS = 4


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
    """From enqueueing to the start of the handler, in an idle worker of another process, against the drivers alone."""
    open_store(url).close()
    raw, ours = wakeup_times(url, server)
    for title, at, bar in (("p50", 50, 2.5), ("p95", 95, 3)):
        detail = f"{percentile(ours, at) / 1e6:.2f} ms, raw {percentile(raw, at) / 1e6:.2f} ms"
        report.add(f"{name}: wake-up {title} / raw", ratio(raw, ours, at), "at_most", bar, detail)


def wakeup_times(url: str, server: str = "") -> tuple[list[int], list[int]]:
    """Both are asked in turn, a few times each, since the speed of a machine changes within minutes.

    While one is asked the other process does not run. Whoever enqueues then waits at a pipe, and takes no time from
    those it woke.
    """
    raw: list[int] = []
    ours: list[int] = []
    for _ in range(WAKEUP_ROUNDS):
        raw += _raw_wakeups(url, server)
        ours += _our_wakeups(url, server or "auto")
    return raw, ours


def ratio(raw: list[int], ours: list[int], at: int) -> float:
    return percentile(ours, at) / percentile(raw, at)


def percentile(values: list[int], at: int) -> float:
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
        taken = _ping(child, lambda: store.save_task(new_task("bench.Ping")), count)
        # What this worker left unfinished, the next one would begin with.
        while store.find_tasks(TaskFilter(name="bench.Ping", state=TaskState.RUNNING)):
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


def new_task(name: str, data: dict[str, str] | None = None) -> TaskDefinition:
    now = wall_ms()
    return TaskDefinition(sortable_id(), name, "", "", "", "", created=now, updated=now, data=data or {})


def silenced(report: Report, name: str, url: str) -> None:
    """Without a notifier the poll interval bounds the wake-up."""
    poll_ms = 400
    worst = max(_our_wakeups(url, "none", poll_ms, count=8))
    detail = f"at most {worst / 1e6:.0f} ms at a poll interval of {poll_ms} ms"
    report.add(f"{name}: silenced wake-up / poll interval", worst / 1e6 / poll_ms, "at_most", 1, detail)
