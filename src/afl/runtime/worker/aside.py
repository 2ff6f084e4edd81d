"""Something that is done on another thread while this one goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from afl.runtime.worker.thread_pool import Threads

T = TypeVar("T")


class Aside(Generic[T]):
    """One thing at a time: `begin` it, and `take` what came of it, on the same thread."""

    def __init__(self, threads: Callable[[], Threads]) -> None:
        self._threads = threads
        self._over = threading.Lock()  # held while it is under way: an Event would cost several times as much
        self._outcome: T | None = None
        self._problem: BaseException | None = None
        self.begun = False

    def begin(self, work: Callable[[], T]) -> None:
        """Have it done. Nothing else may be under way."""
        self._over.acquire()

        def job() -> None:
            try:
                self._outcome = work()
            except BaseException as error:  # raised where it is taken
                self._problem = error
            finally:
                self._over.release()

        try:
            self._threads().run(job)
        except BaseException:
            self._over.release()
            raise
        self.begun = True

    def take(self) -> T:
        """Wait for the end of it; what it gave, or what it raised."""
        with self._over:
            outcome, problem = self._outcome, self._problem
            self._outcome = self._problem = None
            self.begun = False
        if problem is not None:
            raise problem
        return outcome  # type: ignore[return-value]
