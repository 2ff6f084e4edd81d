"""Threads for handlers. They are daemons: a handler that never returns must not keep the process from ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool(Executor):
    """A thread for each job that finds none idle: whoever submits decides how many run at a time.

    That way a handler which hangs takes a thread and no more; its slot can be given to another.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a job on a thread of the pool."""
        future: Future[T] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        with self._guard:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._idle > 0:
                self._idle -= 1
            else:
                name = f"{self._name}-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(job)
        return future

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, patience: float | None = None
    ) -> None:
        """End the threads as their jobs end; `wait` waits for that, at most `patience` seconds if given."""
        with self._guard:
            self._closed = True
            threads = list(self._threads)
            for _ in threads:
                self._jobs.put(None)
        until = None if patience is None else time.monotonic() + patience
        if wait:
            for thread in threads:
                thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._guard:
                self._idle += 1

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *error: Any) -> None:
        self.shutdown()
