"""Searching runs by words, durations and costs, as every store does it."""

from __future__ import annotations

from typing import Any

import pytest

from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.usage import UsageRecord
from afl.runtime.stores.usage_store import usage_store
from afl.runtime.types import WorkflowId


def a_run(run: str, **fields: Any) -> RunDefinition:
    return RunDefinition(run, fields.pop("workflow", "shop.MorningOrder"), "h", **fields)


def found(store: PersistenceAPI, text: str = "", **wanted: Any) -> list[str]:
    return [run.workflow_id for run in store.find_runs(RunFilter(text=text, **wanted))]


@pytest.mark.parametrize(
    "text",
    [
        *("abc123def", "ABC1", "123def45", "nightly", "Night", "morning", "shop.morning", "order"),
        *("team=data", "data", "müller", "MULLER", "4711", "in-put", "card declined", "declined card"),
        *("CardError", "result", "zürich", "second line", "it's", "mid"),
    ],
)
def test_a_run_is_found_by_whatever_it_has(store: PersistenceAPI, text: str) -> None:
    store.insert_run(a_run("other", created=2, workflow="news.Page", inputs={"n": 47}))
    run = a_run(
        "abc123def456-0-x123def45",
        created=1,
        name="Nightly amidst",
        tags={"team": "data"},
        inputs={"customer": "Müller", "number": 4711, "in-put": ["first\nsecond line"]},
        outputs={"result": "Zürich", "note": "it's"},
        error={"message": "card was declined", "error_type": "CardError"},
        state=RunnerState.FAILED,
    )
    store.insert_run(run)
    assert found(store, text) == [run.workflow_id]
    assert found(store, text, state=RunnerState.FAILED, workflow=run.workflow_name) == [run.workflow_id]
    assert found(store, text, state=RunnerState.COMPLETED) == []


def test_what_a_run_comes_to_is_found_when_it_has_ended(store: PersistenceAPI) -> None:
    run = a_run("r1", created=1, inputs={"from": "Lisbon"}, owner="me", epoch=1)
    store.commit(IterationChanges(run=run, new_run=True))
    assert found(store, "lisbon") == ["r1"] and found(store, "porto") == []
    run.state, run.ended, run.outputs = RunnerState.COMPLETED, 9, {"to": "Porto"}
    run.updated += 1
    store.commit(IterationChanges(run=run))
    assert found(store, "porto lisbon") == ["r1"]
    store.insert_run(a_run("r2", state=RunnerState.CREATED, inputs={"from": "Lisbon"}, created=2))
    assert store.cancel_run(WorkflowId("r2"), "canceled by operator grace")
    assert found(store, "grace lisb") == ["r2"]
    assert found(store, "lisb", limit=1) == ["r2"] and found(store, "lisb", before="r2") == ["r1"]


def test_a_run_that_was_removed_is_not_found(store: PersistenceAPI) -> None:
    store.insert_run(a_run("gone", state=RunnerState.COMPLETED, ended=5, inputs={"word": "unique"}))
    assert found(store, "unique") == ["gone"]
    assert store.delete_runs(10, 10) == 1
    assert found(store, "unique") == []
    store.insert_run(a_run("gone", state=RunnerState.COMPLETED, ended=5, inputs={"word": "another"}))
    assert found(store, "unique") == [] and found(store, "another") == ["gone"]


def test_runs_are_indexed_once(store: PersistenceAPI) -> None:
    for number in range(3):
        store.insert_run(a_run(f"r{number}", created=number))
    assert (store.index_runs(), store.index_runs()) == (3, 0)
    assert found(store, "morning") == ["r2", "r1", "r0"]


def test_tags_that_a_run_gives_itself_are_found(store: PersistenceAPI) -> None:
    run = a_run("r1", owner="me", epoch=1)
    store.commit(IterationChanges(run=run, new_run=True))
    assert found(store, "urgent") == []
    run.tags = {"level": "urgent"}
    run.updated += 1
    store.commit(IterationChanges(run=run, tags={"level": "urgent"}))
    assert found(store, "urgent") == ["r1"]


def test_runs_are_found_by_how_long_they_took(store: PersistenceAPI) -> None:
    for run, took in (("short", 10), ("middle", 500), ("long", 60_000)):
        store.insert_run(a_run(run, created=1_000, ended=1_000 + took, state=RunnerState.COMPLETED))
    store.insert_run(a_run("open", created=1_000, state=RunnerState.RUNNING))
    assert set(found(store, longer=500)) == {"middle", "long", "open"}
    assert set(found(store, longer=500, state=RunnerState.COMPLETED)) == {"middle", "long"}
    assert found(store, longer=20, shorter=1_000) == ["middle"]
    assert found(store, shorter=10) == ["short"]


def test_runs_are_found_by_what_they_cost(store: PersistenceAPI) -> None:
    usage = usage_store(store)
    assert usage is not None
    for number, (run, costs) in enumerate({"cheap": [0.01], "dear": [1.5, 0.75], "free": [None]}.items()):
        store.insert_run(a_run(run, created=number))
        for cost in costs:
            usage.record_usage(UsageRecord(run, "s", "t", "m", cost_usd=cost))
    assert found(store, cost_from=2.0) == ["dear"]
    assert found(store, cost_from=0.005, cost_to=1.0) == ["cheap"]
    assert found(store, cost_to=1.0) == ["free", "cheap"]
