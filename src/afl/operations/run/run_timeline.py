"""A run over time: one row per place of the program, however many steps stand there, and a bar for each attempt.

Work that is queued is told apart from work that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afl.kernel.clock import wall_ms
from afl.operations.parameters import Limit
from afl.operations.run import run_store
from afl.operations.run.critical_path import critical_steps
from afl.operations.run.run_graph import place_of, state_word, step_word
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_tree import Counts
from afl.runtime.entities import (
    AttemptDefinition,
    AttemptOutcome,
    RunDefinition,
    TaskHold,
    TaskState,
    in_order,
)
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import TaskLine
from afl.runtime.program import paths
from afl.runtime.step import StepLine
from afl.runtime.types import ObjectType, StepId, WorkflowId

SLICES = 72
MOST_ROWS = 300
MOST_BARS = 12
_TICKS = 6
_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class AttemptBar:
    """One attempt: queued from `queued` to `start`, run from there to `end`, all shares of the whole time."""

    number: int
    outcome: str
    queued: float
    start: float
    end: float
    queued_ms: int
    ran_ms: int


@dataclass(frozen=True)
class TimelineRow:
    """The steps of one place. `start` and `end` are shares of the whole time; `depth` is how deep it lies in bodies.

    A place with one step has a bar for each attempt, the newest MOST_BARS of them; steps that only hold others have
    none. Where several steps stand, `slices` says how many of them were under way, part by part of the whole time, and
    `queued_slices` how many of those were queued. `is_critical`: the run would have ended sooner, had it been faster.
    """

    path: str
    name: str
    facet: str
    depth: int
    state: str
    counts: Counts
    started: int
    ended: int
    start: float
    end: float
    busy_ms: int
    slices: list[int] = field(default_factory=list)
    queued_slices: list[int] = field(default_factory=list)
    bars: list[AttemptBar] = field(default_factory=list)
    attempts: int = 0
    queued_ms: int = 0
    ran_ms: int = 0
    is_critical: bool = False


@dataclass(frozen=True)
class Tick:
    """A mark on the axis: where, as a share, and how long after the beginning."""

    at: float
    after_ms: int


@dataclass(frozen=True)
class RunTimeline:
    """Rows in the order in which they began, those inside of one below it; `left_out` of them are not there."""

    run: str
    began: int
    ended: int
    rows: list[TimelineRow]
    ticks: list[Tick]
    left_out: int = 0


def run_timeline(store: PersistenceAPI, run: str, *, limit: Limit = MOST_ROWS) -> RunTimeline:
    """When the steps of a run were queued, started and ended, attempt by attempt, and which of them it waited for."""
    found = run_store.find(store, run)
    return _Reader(store, found).timeline(limit)


class _Reader:
    """Reads what is known of one run's times."""

    def __init__(self, store: PersistenceAPI, run: RunDefinition) -> None:
        self._run = run
        self._id = WorkflowId(run.workflow_id)
        self._lines = store.get_step_lines(self._id)
        self._at_work = store.get_running_steps(self._id) if not run.is_over else set[StepId]()
        self._spans = attempt_spans(store, run.workflow_id)
        self._critical = critical_steps(self._lines, program_cache(store).load(run.program_hash), self._id)
        self._now = run.ended or wall_ms()
        self._began = min([run.created, *(line.started for line in self._lines if line.started)])
        self._whole = max(1, self._now - self._began)

    def timeline(self, limit: int) -> RunTimeline:
        catchers = {paths.parent(line.id) for line in self._lines if line.object_type == ObjectType.AND_CATCH}
        places: dict[str, list[StepLine]] = {}
        for line in self._lines:
            place = place_of(line.id, self._id)
            if _is_shown(place):
                places.setdefault(place, []).append(line)
        rows = []
        for place in _in_order({place: steps[0].started for place, steps in places.items()})[:limit]:
            steps = places[place]
            counts = Counts()
            for step in steps:
                word = step_word(
                    step.state, is_worked_on=step.id in self._at_work, catches=step.id in catchers
                )
                setattr(counts, word, getattr(counts, word) + 1)
            rows.append(self._row(place, steps, counts))
        left_out = max(0, len(places) - limit)
        return RunTimeline(self._id, self._began, self._now, rows, _ticks(self._whole), left_out)

    def _row(self, place: str, steps: Sequence[StepLine], counts: Counts) -> TimelineRow:
        first = min(step.started for step in steps)
        last = max(step.ended or self._now for step in steps)
        bars = [self._bar(span, step) for step in steps for span in self._spans.get(step.id, ())]
        is_many = len(steps) > 1
        worked = [(bar.queued, bar.end) for bar in bars] or [
            (self._share(step.started), self._share(step.ended or self._now)) for step in steps
        ]
        return TimelineRow(
            path=place,
            name=paths.key(place),
            facet=steps[0].facet_name,
            depth=sum(1 for each in place.split("/")[:-1] if not paths.is_block(each)),
            state=state_word(counts, self._run.state),
            counts=counts,
            started=first,
            ended=last if not (counts.waiting or counts.running) else 0,
            start=self._share(first),
            end=self._share(last),
            busy_ms=sum(max(0, (step.ended or self._now) - step.started) for step in steps),
            slices=_slices(worked) if is_many else [],
            queued_slices=_slices(_queued(bars)) if is_many and bars else [],
            bars=[] if is_many else bars[-MOST_BARS:],
            attempts=len(bars),
            queued_ms=sum(bar.queued_ms for bar in bars),
            ran_ms=sum(bar.ran_ms for bar in bars),
            is_critical=any(step.id in self._critical for step in steps),
        )

    def _bar(self, span: AttemptSpan, step: StepLine) -> AttemptBar:
        """Whatever clocks say, an attempt lies within its step, and runs after it was queued."""
        last = step.ended or self._now
        queued = min(max(span.queued or step.started, step.started), last)
        started = min(max(span.started or last, queued), last)
        ended = min(max(span.ended or last, started), last)
        return AttemptBar(
            number=span.number,
            outcome=span.outcome,
            queued=self._share(queued),
            start=self._share(started),
            end=self._share(ended),
            queued_ms=started - queued,
            ran_ms=ended - started,
        )

    def _share(self, moment: int) -> float:
        return min(1.0, max(0.0, (moment - self._began) / self._whole))


def _is_shown(place: str) -> bool:
    """Blocks only group, and yields take no time."""
    key = paths.key(place)
    return bool(place) and not paths.is_block(key) and key[0] not in ">~"


def _in_order(began: Mapping[str, int]) -> list[str]:
    """Places as they began, each with what lies in it behind it."""

    def rank(place: str) -> list[tuple[int, str]]:
        return [(began[each], each) for each in paths.prefixes(place) if each in began]

    return sorted(began, key=rank)


def _queued(bars: Iterable[AttemptBar]) -> list[tuple[float, float]]:
    """When work was queued for so long that it can be seen."""
    return [(bar.queued, bar.start) for bar in bars if bar.start - bar.queued > 1 / (4 * SLICES)]


def _slices(spans: Sequence[tuple[float, float]]) -> list[int]:
    """How many spans touch each part of the time; by differences, so that many spans cost no more than few."""
    change = [0] * (SLICES + 1)
    for start, end in spans:
        first = min(SLICES - 1, max(0, int(start * SLICES)))
        last = min(SLICES - 1, max(first, int(end * SLICES)))
        change[first] += 1
        change[last + 1] -= 1
    under_way, found = 0, []
    for each in change[:SLICES]:
        under_way += each
        found.append(under_way)
    return found


def _ticks(whole: int) -> list[Tick]:
    """A handful of marks at round times."""
    size = 1
    while not any(whole / (size * step) <= _TICKS for step in _STEPS):
        size *= 10
    every = next(size * step for step in _STEPS if whole / (size * step) <= _TICKS)
    return [Tick(at / whole, at) for at in range(0, whole + 1, every)]


@dataclass(frozen=True)
class AttemptSpan:
    """One attempt. Times are of the wall clock; `started` is 0 while it is queued, `ended` while it runs."""

    number: int
    outcome: str
    queued: int
    started: int
    ended: int


def attempt_spans(store: PersistenceAPI, run: str) -> dict[str, list[AttemptSpan]]:
    """The attempts of a run by step, in their order; what waits to be claimed is one that has not started."""
    tasks = store.get_task_lines(WorkflowId(run))
    by_task: dict[str, list[AttemptDefinition]] = {}
    if any(task.deliveries > 1 or task.failures or task.state == TaskState.FAILED for task in tasks):
        for each in in_order(store.get_failed_attempts(run)):
            by_task.setdefault(each.task_id, []).append(each)
    found: dict[str, list[AttemptSpan]] = {}
    for task in tasks:
        ended = by_task.get(task.uuid, [])
        spans = [*map(_span, ended), *_own(task, ended)]
        found.setdefault(str(task.step_id), []).extend(spans)
    return found


def _span(attempt: AttemptDefinition) -> AttemptSpan:
    started = attempt.started or attempt.ended
    return AttemptSpan(attempt.number, attempt.outcome, attempt.queued, started, attempt.ended)


def _own(task: TaskLine, ended: Iterable[AttemptDefinition]) -> Iterable[AttemptSpan]:
    """The attempt that the task itself is the record of: one that goes on, waits, or ended with a result."""
    before = max((each.ended + (each.retry_ms or 0) for each in ended), default=0)
    number = max((each.number for each in ended), default=0) + 1
    queued = before or task.created
    if task.state == TaskState.RUNNING:
        yield AttemptSpan(number, AttemptOutcome.RUNNING, queued, task.started, 0)
    elif task.state in (TaskState.COMPLETED, TaskState.IGNORED):
        started = task.started or (task.updated if not task.via else queued)
        yield AttemptSpan(number, task.state, queued, started, task.updated)
    elif task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE:
        yield AttemptSpan(number, AttemptOutcome.RUNNING, queued, queued, 0)
    elif task.state == TaskState.PENDING:
        yield AttemptSpan(number, "queued", queued, 0, 0)
