"""A thread pool without threads: handlers run when the runner waits for an answer, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from afl.kernel.thread_pool import Job
from afl.runtime import local_runner
from afl.runtime.worker.in_flight import InFlightTasks
from afl.runtime.worker.results import TaskResult


class Pool:
    """Stands in for the local runner's pool."""

    def __init__(self, random: Random, beside: Callable[[], None] = lambda: None) -> None:
        """`beside` is called now and then, for what happens outside meanwhile."""
        self._random = random
        self._beside = beside
        self._calls: list[Job] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        collect = InFlightTasks.collect

        def answered(work: InFlightTasks, timeout: float | None = None) -> list[TaskResult]:
            self._answer()
            return collect(work, timeout)

        patch.setattr(local_runner, "ThreadPool", lambda *size, **options: self)
        patch.setattr(InFlightTasks, "collect", answered)

    def run(self, job: Job) -> None:
        self._calls.append(job)

    def _answer(self) -> None:
        """One or more of the calls are made."""
        self._beside()
        self._random.shuffle(self._calls)
        for _ in range(self._random.randint(1, max(1, len(self._calls)))):
            if self._calls:
                self._calls.pop()()

    def shutdown(self, **options: Any) -> None:
        self._calls.clear()
