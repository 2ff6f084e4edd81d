"""A runner in a process of its own: `python -m bench.queued_process URL`.

It serves `Work`, prints a line when it is ready, and begins when it reads one.
"""

from __future__ import annotations

import sys

from afl.runtime.evaluator import Evaluator
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers


def main(url: str) -> None:
    """Serve until killed."""
    store = open_store(url)
    handlers = Handlers.of({"Work": lambda n: {"m": n}})
    service = RunnerService(
        store, Evaluator(store), RunnerConfig(http=False, max_concurrent=10), handlers=handlers
    )
    print("ready", flush=True)
    sys.stdin.readline()
    service.start()


if __name__ == "__main__":
    main(sys.argv[1])
