"""A worker in a process of its own: `python -m bench.worker_process URL [DOORBELL [POLL_MS [LEASE_MS]]]`.

It serves `bench.Ping`, which prints when it was called, and `bench.Hold`, which says so in a file and never returns.
It prints a line when it is ready.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from afl import handler
from afl.runtime.evaluator import Evaluator
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers


@handler("bench.Ping")
def ping() -> None:
    """Say when it was called, by a clock that all processes share."""
    print(time.monotonic_ns(), flush=True)


@handler("bench.Hold")
def hold(folder: str) -> dict[str, int]:
    """Tell who has the task, and keep it."""
    note = Path(folder) / f"{os.getpid()}.{time.monotonic_ns()}"
    note.touch()
    threading.Event().wait()
    return {}


def main(url: str, doorbell: str = "auto", poll_ms: str = "2000", lease_ms: str = "60000") -> None:
    """Serve until killed."""
    store = open_store(url, doorbell=doorbell, lease_ms=int(lease_ms))
    config = RunnerConfig(http=False, max_concurrent=1, poll_interval_ms=int(poll_ms))
    service = RunnerService(store, Evaluator(store), config, handlers=Handlers.of(sys.modules[__name__]))
    threading.Thread(target=_say_ready, args=[service], daemon=True).start()
    service.start()


def _say_ready(service: RunnerService) -> None:
    while not service.is_running:
        time.sleep(0.01)
    time.sleep(0.2)
    print("ready", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
