"""The log of a run: what its agents and its workflow said, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from afl.kernel.errors import NotFoundError
from afl.operations.parameters import Limit, LongPoll, Position, Run
from afl.operations.run import run_store
from afl.runtime.entities import LogDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import logs_topic, run_topic
from afl.runtime.program import paths
from afl.runtime.types import WorkflowId

_POLL_SECONDS = 1.0
OVERLAP = 1_000  # positions that are read again: those of concurrent writers may appear out of order
_BATCH = 1_000


@dataclass(frozen=True)
class LogLine:
    """One entry. `level` is info, warning or error; `progress` a share of 1, if the entry tells one.

    `attempt` is the number of the attempt that wrote it, or that it is about; 0 if there is none.
    """

    id: str
    time: int
    run: str
    step: str
    step_id: str
    level: str
    source: str
    message: str
    progress: float | None
    details: dict[str, Any]
    attempt: int = 0

    @property
    def text(self) -> str:
        """The message, with the progress before it: `40% parsing`."""
        share = "" if self.progress is None else f"{self.progress:.0%}"
        return self.message if not share or share == self.message else f"{share} {self.message}"


@dataclass(frozen=True)
class LogPage:
    """Entries in the order in which they were stored; `position` is where to read on, `over` that the run is."""

    lines: list[LogLine]
    position: int
    over: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there."""
        return not self.lines


def read_page(
    store: PersistenceAPI, run: Run, *, after: Position = 0, limit: Limit = 1_000, wait: LongPoll = 0
) -> LogPage:
    """Read what a run's agents and its workflow logged, oldest first, after a position.

    If there is nothing new and the run goes on, entries of the next `wait` seconds. Concurrent writers may add entries
    a little before the position later: to have all, read an overlap again and compare ids.
    """
    name = run_store.find(store, run or None).workflow_id
    until = time.monotonic() + wait
    with store.subscribe([logs_topic(name), run_topic(name)]) as subscription:
        while True:
            over = _is_over(store, name)
            found = store.get_logs_after(name, after, limit)
            left = until - time.monotonic()
            if found or over or left <= 0:
                position = found[-1][0] if found else after
                return LogPage([log_line(log) for _, log in found], position, over)
            subscription.wait(min(left, _POLL_SECONDS))


def read_log(store: PersistenceAPI, run: str) -> list[LogLine]:
    """What was logged so far, in the order in which it was stored."""
    return [log_line(log) for log in entries(store, run)]


def entries(store: PersistenceAPI, run: str) -> Iterator[LogDefinition]:
    """The records of that."""
    return _Reader(store, run).new()


def follow_log(
    store: PersistenceAPI, run: str, *, wait: Callable[[], bool] | None = None
) -> Iterator[LogLine]:
    """What was logged so far, and what is logged from now on, until the run is over.

    `wait` is asked between two looks whether to go on; by default it waits for the notifier, or a second.
    """
    reader = _Reader(store, run)
    with store.subscribe([logs_topic(run), run_topic(run)]) as subscription:
        while True:
            over = _is_over(store, run)
            yield from map(log_line, reader.new())
            if over:
                return
            if wait is None:
                subscription.wait(_POLL_SECONDS)
            elif not wait():
                return


def _is_over(store: PersistenceAPI, run: str) -> bool:
    """Looked at before the log is: what is logged before the end is then read as well."""
    found = store.get_run(WorkflowId(run))
    if found is None:
        raise NotFoundError(f"run {run} is no longer in this store")
    return found.is_over


class _Reader:
    """Reads a log forward, with an overlap, and gives each entry once."""

    def __init__(self, store: PersistenceAPI, run: str) -> None:
        self._store = store
        self._run = run
        self._highest = 0
        self._seen: dict[str, int] = {}

    def new(self) -> Iterator[LogDefinition]:
        position = max(0, self._highest - OVERLAP)
        while found := self._store.get_logs_after(self._run, position, _BATCH):
            for position, log in found:
                if log.uuid not in self._seen:
                    self._seen[log.uuid] = position
                    yield log
            if len(found) < _BATCH:
                break
        self._highest = max(self._highest, position)
        oldest = self._highest - OVERLAP
        self._seen = {uuid: at for uuid, at in self._seen.items() if at > oldest}


def log_line(log: LogDefinition) -> LogLine:
    """An entry as people read it."""
    share = log.details.get("progress")
    step_id = log.step_id or ""
    return LogLine(
        id=log.uuid,
        time=log.time,
        run=log.runner_id,
        step=paths.shown(step_id, WorkflowId(log.runner_id))
        if step_id.startswith(f"{log.runner_id}/")
        else step_id,
        step_id=step_id,
        level=log.note_type,
        source=log.note_originator,
        message=log.message,
        progress=float(share) if isinstance(share, int | float) else None,
        details=log.details,
        attempt=log.attempt,
    )
