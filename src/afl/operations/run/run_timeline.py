"""A run over time: one row per place of the program, however many steps stand there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from afl.kernel.clock import wall_ms
from afl.operations.parameters import Limit
from afl.operations.run import run_store
from afl.operations.run.run_graph import place_of, state_word, step_word
from afl.operations.run.run_tree import Counts
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.step import StepLine
from afl.runtime.types import ObjectType, WorkflowId

SLICES = 72
MOST_ROWS = 300
_TICKS = 6
_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class TimelineRow:
    """The steps of one place. `slices` says how many of them were under way, part by part of the whole time.

    `start` and `end` are shares of the whole time; `depth` is how deep the place lies in bodies.
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


@dataclass(frozen=True)
class Tick:
    """A mark on the axis: where, as a share, and how long after the beginning."""

    at: float
    after_ms: int


@dataclass(frozen=True)
class RunTimeline:
    """Rows in the order in which they began; `left_out` of them are not there."""

    run: str
    began: int
    ended: int
    rows: list[TimelineRow]
    ticks: list[Tick]
    left_out: int = 0


def run_timeline(store: PersistenceAPI, run: str, *, limit: Limit = MOST_ROWS) -> RunTimeline:
    """When the steps of a run began and ended."""
    found = run_store.find(store, run)
    workflow_id = WorkflowId(found.workflow_id)
    lines = store.get_step_lines(workflow_id)
    at_work = store.get_running_steps(workflow_id) if not found.is_over else set()
    now = found.ended or wall_ms()
    began = min([found.created, *(line.started for line in lines if line.started)])
    whole = max(1, now - began)
    catchers = {paths.parent(line.id) for line in lines if line.object_type == ObjectType.AND_CATCH}
    places: dict[str, list[StepLine]] = {}
    for line in lines:
        place = place_of(line.id, workflow_id)
        if _is_shown(place):
            places.setdefault(place, []).append(line)
    rows = []
    for place, steps in sorted(places.items(), key=lambda each: each[1][0].started)[:limit]:
        counts = Counts()
        for step in steps:
            word = step_word(step.state, is_worked_on=step.id in at_work, catches=step.id in catchers)
            setattr(counts, word, getattr(counts, word) + 1)
        rows.append(_row(place, steps, counts, state_word(counts, found.state), began, now, whole))
    return RunTimeline(found.workflow_id, began, now, rows, _ticks(whole), max(0, len(places) - limit))


def _is_shown(place: str) -> bool:
    """Blocks only group, and yields take no time."""
    key = paths.key(place)
    return bool(place) and not paths.is_block(key) and key[0] not in ">~"


def _row(
    place: str, steps: Sequence[StepLine], counts: Counts, state: str, began: int, now: int, whole: int
) -> TimelineRow:
    first = min(step.started for step in steps)
    last = max(step.ended or now for step in steps)
    spans = [((step.started - began) / whole, ((step.ended or now) - began) / whole) for step in steps]
    return TimelineRow(
        path=place,
        name=paths.key(place),
        facet=steps[0].facet_name,
        depth=sum(1 for each in place.split("/")[:-1] if not paths.is_block(each)),
        state=state,
        counts=counts,
        started=first,
        ended=last if not (counts.waiting or counts.running) else 0,
        start=(first - began) / whole,
        end=(last - began) / whole,
        busy_ms=sum(max(0, (step.ended or now) - step.started) for step in steps),
        slices=_slices(spans) if len(steps) > 1 else [],
    )


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
