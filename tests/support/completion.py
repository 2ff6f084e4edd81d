"""A thread pool without threads: handlers run when somebody waits for them, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from afl.runtime import local_runner


class Pool:
    """Stands in for ThreadPoolExecutor and `wait` in the local runner."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calls: dict[Future[Any], tuple[Callable[..., Any], tuple[Any, ...]]] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(local_runner, "ThreadPoolExecutor", lambda *size, **options: self)
        patch.setattr(local_runner, "wait", self.wait)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls[future] = (function, arguments)
        return future

    def wait(
        self, futures: Iterable[Future[Any]], **options: Any
    ) -> tuple[set[Future[Any]], set[Future[Any]]]:
        """Finish one or more of the futures."""
        waiting = list(futures)
        pending = [future for future in waiting if not future.done()]
        self._random.shuffle(pending)
        for future in pending[: self._random.randint(1, max(1, len(pending)))]:
            self._finish(future)
        return {f for f in waiting if f.done()}, {f for f in waiting if not f.done()}

    def _finish(self, future: Future[Any]) -> None:
        function, arguments = self._calls.pop(future)
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)

    def shutdown(self, **options: Any) -> None:
        self._calls.clear()
