"""The log of a run: what its agents and its workflow said, and how far they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.errors import NotFoundError
from afl.operations.parameters import Limit, LongPoll, Position, Run
from afl.operations.run import run_store
from afl.operations.run.log_filter import LogAttempt, LogFilter, LogLevel, LogStep, LogText
from afl.runtime.entities import LogDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import logs_topic, run_topic
from afl.runtime.program import paths
from afl.runtime.types import WorkflowId

OVERLAP = 1_000  # positions that are read again: those of concurrent writers may appear out of order
_BATCH = 1_000
END = 2**53
"""Before this position is all of a log: whoever asks for what is before it gets the newest entries."""


@dataclass(frozen=True)
class LogLine:
    """One entry. `level` is info, warning or error; `progress` a share of 1, if the entry tells one.

    `attempt` is the number of the attempt that wrote it, or that it is about; 0 if there is none. Attempts are counted
    for each `task`.
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
    task: str = ""

    @property
    def text(self) -> str:
        """The message, with the progress before it: `40% parsing`."""
        share = "" if self.progress is None else f"{self.progress:.0%}"
        return self.message if not share or share == self.message else f"{share} {self.message}"


@dataclass(frozen=True)
class LogPage:
    """Entries in the order in which they were stored; `position` is where to read on, `over` that the run is.

    `first` is where to read further back, if the entries were read backwards; 0 if there are no earlier ones.
    """

    lines: list[LogLine]
    position: int
    over: bool
    first: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there."""
        return not self.lines


def read_page(
    store: PersistenceAPI,
    run: Run,
    *,
    after: Position = 0,
    before: Annotated[
        int, Meta(ge=0, le=END, description="Read backwards: the last entries before this position.")
    ] = 0,
    limit: Limit = 1_000,
    wait: LongPoll = 0,
    level: LogLevel = "",
    grep: LogText = "",
    attempt: LogAttempt = 0,
    step: LogStep = "",
) -> LogPage:
    """Read what a run's agents and its workflow logged, oldest first, after a position; each attempt that failed too.

    If there is nothing new and the run goes on, entries of the next `wait` seconds. Concurrent writers may add entries
    a little before the position later: to have all, read an overlap again and compare ids.
    """
    name = run_store.find(store, run or None).workflow_id
    wanted = LogFilter(level, grep, attempt, step)
    if before:
        return _read_back(store, name, before, limit, wanted)

    def look() -> LogPage:
        nonlocal after
        over = _is_over(store, name)
        found, after = _read_on(store, name, after, limit, wanted)
        return LogPage([log_line(log) for log in found], after, over)

    with store.subscribe([logs_topic(name), run_topic(name)]) as subscription:
        return subscription.poll(look, lambda page: bool(page.lines or page.over), wait)


def _read_on(
    store: PersistenceAPI, run: str, after: int, limit: int, wanted: LogFilter
) -> tuple[list[LogDefinition], int]:
    """The next entries that are asked for, and where to read on."""
    found: list[LogDefinition] = []
    batch = max(limit, _BATCH) if wanted.is_set else limit
    while entries := store.get_logs_after(run, after, batch):
        for after, log in entries:
            if wanted.matches(log):
                found.append(log)
                if len(found) == limit:
                    return found, after
        if len(entries) < batch:
            break
    return found, after


def _read_back(store: PersistenceAPI, run: str, before: int, limit: int, wanted: LogFilter) -> LogPage:
    """The last entries that are asked for before a position."""
    over, position = _is_over(store, run), 0
    found: list[tuple[int, LogDefinition]] = []
    batch = max(limit, _BATCH) + 1
    while entries := store.get_logs_before(run, before, batch):
        position = position or entries[0][0]
        found += [each for each in entries if wanted.matches(each[1])]
        before = entries[-1][0]
        if len(found) > limit or len(entries) < batch:
            break
    first = found[limit - 1][0] if len(found) > limit else 0
    return LogPage([log_line(log) for _, log in reversed(found[:limit])], position, over, first)


def entries(store: PersistenceAPI, run: str) -> Iterator[LogDefinition]:
    """Everything that was logged so far, in the order in which it was stored."""
    position = 0
    while found := store.get_logs_after(run, position, _BATCH):
        yield from (log for _, log in found)
        if len(found) < _BATCH:
            break
        position = found[-1][0]


def _is_over(store: PersistenceAPI, run: str) -> bool:
    """Looked at before the log is: what is logged before the end is then read as well."""
    found = store.get_run(WorkflowId(run))
    if found is None:
        raise NotFoundError(f"run {run} is no longer in this store")
    return found.is_over


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
        task=log.object_id if log.object_type == "task" else "",
    )
