"""Figures of a period: how many runs, how many succeeded, how long they took, what they cost, what waits now."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from afl.kernel.clock import wall_ms
from afl.operations.work.workers import servers
from afl.runtime.entities import RunnerState, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import RunFigure
from afl.runtime.persistence.usage import UsageSum
from afl.runtime.stores.usage_store import usage_store

MOST_RUNS = 20_000
BARS = 24
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_SHOWN = 50
_OVER = (RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELED)


@dataclass(frozen=True)
class Bar:
    """Runs that were started within a part of the period, by what has become of them; `start` is its beginning."""

    start: int
    completed: int
    failed: int
    canceled: int
    open: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.completed + self.failed + self.canceled + self.open


@dataclass(frozen=True)
class WorkflowFigures:
    """Runs of one workflow. Durations are of those that completed, in milliseconds; None without any.

    `success_rate` is the share of those that completed among those that completed or failed.
    """

    workflow: str
    runs: int
    completed: int
    failed: int
    success_rate: float | None
    p50_ms: int | None
    p95_ms: int | None
    cost_usd: float


@dataclass(frozen=True)
class Spent:
    """What something cost, in US dollars: a model, a day, a tag. `unpriced` calls are not in it."""

    name: str
    cost_usd: float
    calls: int = 0
    tokens: int = 0
    unpriced: int = 0


@dataclass(frozen=True)
class Queue:
    """What waits now: tasks that nobody works on yet, the oldest of them, tasks that are worked on, approvals."""

    waiting: int
    oldest_ms: int
    running: int
    approvals: int


@dataclass(frozen=True)
class Overview:
    """The figures. `counted` runs were looked at, the newest ones; `is_cut` says that the period has more."""

    since: int
    until: int
    counted: int
    is_cut: bool
    all: WorkflowFigures
    per_hour: float
    bars: list[Bar]
    workflows: list[WorkflowFigures]
    models: list[Spent]
    days: list[Spent]
    tags: list[Spent]
    queue: Queue
    open_runs: int
    workers: int
    workers_lost: int


Hours = Annotated[int, Meta(ge=1, le=24 * 366, description="How many hours back.")]


def overview(store: PersistenceAPI, hours: Hours = 24) -> Overview:
    """Show the figures of the last hours: runs, success rate, durations, cost, waiting tasks, workers."""
    until = wall_ms()
    since = until - hours * _HOUR_MS
    runs = store.get_run_figures(since, MOST_RUNS + 1)
    is_cut = len(runs) > MOST_RUNS
    runs = runs[:MOST_RUNS]
    begun = runs[-1].created if is_cut else since
    usage = usage_store(store)
    sums = usage.sum_usage(since) if usage is not None else []
    tags = usage.sum_usage_by_tag(since, _SHOWN) if usage is not None else {}
    live = [each.is_live for each in servers(store) if each.liveness not in ("stopping", "stopped")]
    return Overview(
        since=begun,
        until=until,
        counted=len(runs),
        is_cut=is_cut,
        all=_figures("", runs, sum(each.cost_usd for each in sums)),
        per_hour=sum(each.state in _OVER for each in runs) / max(1, until - begun) * _HOUR_MS,
        bars=_bars(runs, begun, until),
        workflows=_by_workflow(runs, sums),
        models=_spent((each.model, each) for each in sums),
        days=sorted(
            _spent((_date(each.day), each) for each in sums), key=lambda each: each.name, reverse=True
        ),
        tags=[Spent(tag, cost) for tag, cost in tags.items()],
        queue=_queue(store, until),
        open_runs=store.count_open_runs(),
        workers=sum(live),
        workers_lost=len(live) - sum(live),
    )


def _figures(workflow: str, runs: Sequence[RunFigure], cost: float) -> WorkflowFigures:
    states = Counter(each.state for each in runs)
    completed, failed = states[RunnerState.COMPLETED], states[RunnerState.FAILED]
    times = sorted(each.ended - each.created for each in runs if each.state == RunnerState.COMPLETED)
    return WorkflowFigures(
        workflow=workflow,
        runs=len(runs),
        completed=completed,
        failed=failed,
        success_rate=completed / (completed + failed) if completed + failed else None,
        p50_ms=_percentile(times, 50),
        p95_ms=_percentile(times, 95),
        cost_usd=cost,
    )


def _percentile(times: Sequence[int], at: int) -> int | None:
    """The smallest value that so many percent do not exceed."""
    return max(0, times[max(0, -(-len(times) * at // 100) - 1)]) if times else None


def _by_workflow(runs: Sequence[RunFigure], sums: Sequence[UsageSum]) -> list[WorkflowFigures]:
    """Those with the most runs first."""
    cost: defaultdict[str, float] = defaultdict(float)
    for each in sums:
        cost[each.workflow] += each.cost_usd
    grouped: defaultdict[str, list[RunFigure]] = defaultdict(list)
    for run in runs:
        grouped[run.workflow].append(run)
    largest = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))[:_SHOWN]
    return [_figures(name, members, cost[name]) for name, members in largest]


def _bars(runs: Sequence[RunFigure], since: int, until: int) -> list[Bar]:
    width = max(1, -(-(until - since) // BARS))
    counts: list[Counter[str]] = [Counter() for _ in range(BARS)]
    for run in runs:
        place = min(BARS - 1, max(0, (run.created - since) // width))
        counts[place][run.state if run.state in _OVER else "open"] += 1
    return [
        Bar(since + place * width, each["completed"], each["failed"], each["canceled"], each["open"])
        for place, each in enumerate(counts)
    ]


def _spent(named: Iterable[tuple[str, UsageSum]]) -> list[Spent]:
    """Together per name, the most expensive first."""
    found: dict[str, Spent] = {}
    for name, each in named:
        so_far = found.get(name, Spent(name, 0.0))
        found[name] = Spent(
            name,
            so_far.cost_usd + each.cost_usd,
            so_far.calls + each.calls,
            so_far.tokens + each.tokens,
            so_far.unpriced + each.unpriced,
        )
    return sorted(found.values(), key=lambda each: (-each.cost_usd, -each.calls, each.name))[:_SHOWN]


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).date().isoformat()


def _queue(store: PersistenceAPI, now: int) -> Queue:
    from afl.operations.people.tool_calls import ToolCalls  # noqa: PLC0415  most commands count nothing

    tasks = store.count_tasks()
    calls = ToolCalls.of(store).counts()
    waiting = [each for each in tasks if each.state == TaskState.PENDING and not each.hold]
    human = [each for each in tasks if each.hold == TaskHold.ELSEWHERE and each.via.startswith("human:")]
    return Queue(
        waiting=sum(each.count for each in waiting),
        oldest_ms=max([now - each.oldest for each in waiting if each.claimable], default=0),
        running=sum(each.count for each in tasks if each.state == TaskState.RUNNING),
        approvals=sum(each.count for each in human) + sum(each.count for each in calls),
    )
