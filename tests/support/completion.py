"""A thread pool without threads: handlers run when the runner waits for an answer, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from afl.runtime import local_runner
from afl.runtime.local_work import Done, LocalWork


class Pool:
    """Stands in for the local runner's ThreadPoolExecutor."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        collect = LocalWork.collect

        def answered(work: LocalWork) -> list[Done]:
            self._answer()
            return collect(work)

        patch.setattr(local_runner, "ThreadPoolExecutor", lambda *size, **options: self)
        patch.setattr(LocalWork, "collect", answered)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._calls.append((function, arguments))

    def _answer(self) -> None:
        """One or more of the calls are made."""
        self._random.shuffle(self._calls)
        for _ in range(self._random.randint(1, max(1, len(self._calls)))):
            if self._calls:
                function, arguments = self._calls.pop()
                function(*arguments)

    def shutdown(self, **options: Any) -> None:
        self._calls.clear()
