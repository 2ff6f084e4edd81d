"""Threads for handlers. They are daemons: a handler that never returns must not keep the process from ending."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from afl.kernel.joinable_thread import JoinableThread

Job = Callable[[], None]
IDLE_SECONDS = 1.0  # by then an idle thread has ended; one that is at work may never end

_log = logging.getLogger(__name__)


class Threads(Protocol):
    """Runs jobs on threads."""

    def run(self, job: Job) -> None:
        """Run a job, which raises nothing, on some thread."""


class ThreadPool:
    """A thread for each job that finds none idle: the caller decides how many jobs run at a time.

    That way a handler which hangs takes a thread and no more; its slot can be given to another.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def run(self, job: Job) -> None:
        """Run a job on a thread of the pool. There is no future, since none would be awaited."""
        with self._guard:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._idle > 0:
                self._idle -= 1
            else:
                name = f"{self._name}-{len(self._threads) + 1}"
                thread = JoinableThread(self._work, name)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(job)  # within the lock: after `shutdown` no thread would take it

    def shutdown(self, wait: bool = True, *, patience: float | None = None) -> None:
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
            try:
                job()
            except BaseException:  # even what would end a thread: the next job must find one
                _log.exception("a job of %s failed", self._name)
            with self._guard:
                self._idle += 1
