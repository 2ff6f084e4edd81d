"""What happens in a run, as a stream that is read by position: its history and its log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from afl.kernel.errors import InputError, NotFoundError
from afl.operations.parameters import Limit, LongPoll, Run
from afl.operations.run import run_store
from afl.operations.run.run_log import log_line
from afl.runtime.entities import LogDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.history import HistoryEvent, HistoryKind
from afl.runtime.persistence.topics import history_topic, logs_topic, run_topic
from afl.runtime.program import paths
from afl.runtime.types import StepId, WorkflowId

LOG = "log"
PROGRESS = "progress"
ENDS = (HistoryKind.RUN_COMPLETED, HistoryKind.RUN_FAILED, HistoryKind.RUN_CANCELED)
"""The kinds after which nothing happens, unless somebody retries the run."""

EventPosition = Annotated[
    str, Meta(pattern=r"^(\d{1,15}\.\d{1,15}\.\d{1,15})?$", description="The position of the last event.")
]


@dataclass(frozen=True)
class RunEvent:
    """One thing that happened, at a time of the wall clock (ms); `position` is where to read on after it.

    `kind` is step-started, step-waiting, step-completed, step-failed, log, progress, run-completed, run-failed,
    run-canceled, run-paused, run-resumed or run-retried. `message` is what a step waits for, an error, a reason, or
    what was logged; `level` and `attempt` are of the log, `progress` is a share of 1.
    """

    position: str
    kind: str
    time: int
    run: str
    step: str = ""
    facet: str = ""
    message: str = ""
    level: str = ""
    progress: float | None = None
    attempt: int = 0

    @property
    def ends_run(self) -> bool:
        """Whether the run ends with it."""
        return self.kind in ENDS

    def __str__(self) -> str:
        clock = datetime.fromtimestamp(self.time / 1000).strftime("%H:%M:%S.%f")[:-3]
        share = "" if self.progress is None else f"{self.progress:.0%}"
        parts = (clock, f"{self.kind:<14}", self.step, self.facet and f"({self.facet})", share, self.message)
        return " ".join(filter(None, parts)).rstrip()


@dataclass(frozen=True)
class EventPage:
    """Events in their order; `position` is where to read on, `over` that the run is."""

    events: list[RunEvent]
    position: str
    over: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there."""
        return not self.events


def event_topics(run: str) -> list[str]:
    """What notifies of new events."""
    return [history_topic(run), logs_topic(run), run_topic(run)]


def read_events(
    store: PersistenceAPI, run: Run, *, after: EventPosition = "", limit: Limit = 1_000, wait: LongPoll = 0
) -> EventPage:
    """Read what happened in a run after a position: steps that started, wait, completed or failed, its log, its end.

    If there is nothing new and the run goes on, what happens in the next `wait` seconds. Reading on from a position
    misses nothing and repeats nothing.
    """
    name = run_store.find(store, run or None).workflow_id
    place = _Position.of(after)
    with store.subscribe(event_topics(name)) as subscription:
        return subscription.poll(
            lambda: _page(store, name, place, limit), lambda page: bool(page.events or page.over), wait
        )


@dataclass(frozen=True)
class _Position:
    """How far a reader is: `done` events of the commit `commit` and all before it, and the log up to `log`."""

    commit: int = 0
    done: int = 0
    log: int = 0

    @classmethod
    def of(cls, text: str) -> _Position:
        if not text:
            return cls()
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise InputError(f"{text[:80]!r} is not the position of an event; pass the position of one")
        return cls(*map(int, parts))

    def __str__(self) -> str:
        return f"{self.commit}.{self.done}.{self.log}"


def _page(store: PersistenceAPI, run: str, place: _Position, limit: int) -> EventPage:
    workflow_id = WorkflowId(run)
    found = store.get_run(workflow_id)  # first: what is there when it is over, is read as well
    if found is None:
        raise NotFoundError(f"run {run} is no longer in this store")
    commits = store.get_history(workflow_id, max(0, place.commit - 1), limit)
    happened = [
        (number, done, event)
        for number, events in commits
        for done, event in enumerate(events, 1)
        if (number, done) > (place.commit, place.done)
    ]
    logged = store.get_logs_after(run, place.log, limit)
    events: list[RunEvent] = []
    while (happened or logged) and len(events) < limit:
        if happened and (not logged or _until([each for _, _, each in happened[:2]]) <= logged[0][1].time):
            number, done, event = happened.pop(0)
            place = _Position(number, done, place.log)
            events.append(_happened(workflow_id, place, event))
        else:
            position, log = logged.pop(0)
            place = _Position(place.commit, place.done, position)
            events.append(_logged(place, log))
    return EventPage(events, str(place), found.is_over)


def _until(happened: list[HistoryEvent]) -> float:
    """From which time on the log comes after the first of these: after an end, what is logged of a later retry."""
    first, *following = happened
    if first.kind not in ENDS:
        return first.time
    return following[0].time + 1 if following else math.inf


def _happened(run: WorkflowId, place: _Position, event: HistoryEvent) -> RunEvent:
    step = paths.shown(StepId(f"{run}/{event.step}"), run) if event.step else ""
    return RunEvent(str(place), event.kind, event.time, run, step, event.facet, event.detail)


def _logged(place: _Position, log: LogDefinition) -> RunEvent:
    line = log_line(log)
    return RunEvent(
        position=str(place),
        kind=LOG if line.progress is None else PROGRESS,
        time=line.time,
        run=line.run,
        step=line.step,
        message=line.message,
        level=line.level,
        progress=line.progress,
        attempt=line.attempt,
    )
