"""Who leads a worker: one thread at a time, and whoever has claimed something in answer to a ring begins it himself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from afl.runtime.worker.thread_pool import Job, Threads


class Leaders:
    """Takes one turn after another while it `goes_on`, each on some thread of the pool.

    A turn may give out a job that is to begin at once. The thread that leads does it and then belongs to the pool
    again, while another one leads: to wake a thread takes longer than most other things between a ring and a handler,
    and so it is the lead that changes hands, not the work.
    """

    def __init__(
        self, threads: Callable[[], Threads], goes_on: Callable[[], bool], turn: Callable[[], Job | None]
    ) -> None:
        self._threads = threads
        self._goes_on = goes_on
        self._turn = turn
        self._over = threading.Event()
        self._problem: BaseException | None = None

    def run(self) -> None:
        """Lead, and wait for the end; what a turn raises is raised here."""
        self._threads().run(self._lead)
        self.join()
        if self._problem is not None:
            raise self._problem

    def join(self) -> None:
        """Wait until nobody leads any more."""
        self._over.wait()

    def _lead(self) -> None:
        job: Job | None = None
        try:
            while job is None and self._goes_on():
                job = self._turn()
            if job is not None:
                self._threads().run(self._lead)
        except BaseException as error:
            self._problem, job = error, None
        if job is None:
            self._over.set()
        else:
            job()
