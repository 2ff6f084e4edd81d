"""The figures of a period, on every store."""

from __future__ import annotations

from dataclasses import replace

from store_records import a_run

from afl.kernel.clock import wall_ms
from afl.operations.run.overview import overview
from afl.runtime.entities import RunnerState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import RunFigure
from afl.runtime.persistence.usage import UsageRecord, UsageSum
from afl.runtime.stores.usage_store import usage_store

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def save(
    store: PersistenceAPI, name: str, workflow: str, state: str, age: int, took: int = 0, **more: object
) -> None:
    created = wall_ms() - age
    run = replace(a_run(name), workflow_name=workflow, state=state, created=created, **more)
    store.insert_run(replace(run, ended=created + took if state != RunnerState.RUNNING else 0))


def test_runs_of_a_period_newest_first(store: PersistenceAPI) -> None:
    save(store, "r1", "a.A", RunnerState.COMPLETED, 3 * HOUR_MS, 50)
    save(store, "r2", "a.B", RunnerState.FAILED, 2 * HOUR_MS, 60)
    save(store, "r3", "a.A", RunnerState.RUNNING, HOUR_MS)
    found = store.get_run_figures(wall_ms() - 150 * 60_000, 10)
    assert [(each.workflow, each.state, each.ended - each.created) for each in found if each.ended] == [
        ("a.B", RunnerState.FAILED, 60)
    ]
    assert isinstance(found[0], RunFigure) and found[0].ended == 0
    assert len(store.get_run_figures(0, 2)) == 2


def test_what_models_used_by_day_model_workflow_and_tag(store: PersistenceAPI) -> None:
    save(store, "r1", "a.A", RunnerState.COMPLETED, HOUR_MS, 50, tags={"team": "data", "env": "test"})
    save(store, "r2", "a.B", RunnerState.COMPLETED, HOUR_MS, 50, tags={"team": "data"})
    kept = usage_store(store)
    assert kept is not None
    for run, model, cost, day in (
        ("r1", "m1", 0.5, 3),
        ("r1", "m1", 0.25, 3),
        ("r1", "m2", None, 3),
        ("r2", "m1", 1.0, 4),
        ("gone", "m1", 2.0, 4),
        ("r2", "m1", 8.0, 1),
    ):
        kept.record_usage(UsageRecord(run, "s", "t", model, 10, 2, 3, 4, cost, day * DAY_MS + 7))
    assert kept.sum_usage(2 * DAY_MS) == [
        UsageSum(3, "m1", "a.A", 2, 38, 0.75, 0),
        UsageSum(3, "m2", "a.A", 1, 19, 0.0, 1),
        UsageSum(4, "m1", "", 1, 19, 2.0, 0),
        UsageSum(4, "m1", "a.B", 1, 19, 1.0, 0),
    ]
    assert kept.sum_usage_by_tag(2 * DAY_MS, 10) == {"team=data": 1.75, "env=test": 0.75}
    assert kept.sum_usage_by_tag(2 * DAY_MS, 1) == {"team=data": 1.75}


def test_the_overview(store: PersistenceAPI) -> None:
    for number in range(20):
        save(store, f"a{number}", "a.A", RunnerState.COMPLETED, HOUR_MS + number, 10 * (number + 1))
    save(store, "f1", "a.B", RunnerState.FAILED, 2 * HOUR_MS, 5)
    save(store, "c1", "a.B", RunnerState.CANCELED, 2 * HOUR_MS, 5)
    save(store, "o1", "a.B", RunnerState.RUNNING, 2 * HOUR_MS)
    save(store, "old", "a.A", RunnerState.FAILED, 30 * HOUR_MS, 5)
    kept = usage_store(store)
    assert kept is not None
    kept.record_usage(UsageRecord("a1", "s", "t", "m1", 10, 0, 0, 0, 0.5, wall_ms()))
    found = overview(store, hours=24)
    assert (found.counted, found.is_cut, found.open_runs, found.workers) == (23, False, 1, 0)
    assert (found.all.completed, found.all.failed, found.all.cost_usd) == (20, 1, 0.5)
    assert found.all.success_rate == 20 / 21
    first, second = found.workflows
    assert (first.workflow, first.runs, first.p50_ms, first.p95_ms, first.cost_usd) == (
        "a.A",
        20,
        100,
        190,
        0.5,
    )
    assert (second.success_rate, second.p50_ms) == (0.0, None)
    assert sum(bar.total for bar in found.bars) == 23
    assert [bar.completed for bar in found.bars if bar.completed] == [20]
    assert [(each.name, each.calls) for each in found.models] == [("m1", 1)]
    assert 0.9 < found.per_hour < 1
    assert (found.queue.waiting, found.queue.approvals) == (0, 0)
