"""What a worker does at every poll besides its tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from afl.kernel.errors import AgentFlowError, StoreError

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 1.0  # how long they wait while there is more to claim


class PeriodicJobs:
    """`jobs` gives what there is to do. It waits while the worker is busy, but not for good."""

    def __init__(self, jobs: Callable[[], Sequence[Callable[[], object]]]) -> None:
        self._jobs = jobs
        self._since: float | None = None  # when they fell due

    def fall_due(self, now: float) -> None:
        """The jobs are to be run soon."""
        if self._since is None:
            self._since = now

    def run(self, now: float, *, busy: bool) -> None:
        """Run them, if it is time. One that fails does not stop the others, unless it is the store that fails."""
        if self._since is None or (busy and now < self._since + _PATIENCE_SECONDS):
            return
        self._since = None
        for job in self._jobs():
            try:
                job()
            except StoreError:
                raise
            except AgentFlowError as error:
                _log.warning("%s failed: %s", getattr(job, "__name__", "a periodic job"), error)
            except Exception:  # no reason to end, with tasks in flight
                _log.exception("%s failed", getattr(job, "__name__", "a periodic job"))
