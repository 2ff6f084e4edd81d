"""Finding runs: by what people ask for, and by what an evaluator has to do."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import LONG, RUN, a_mark, a_run, begin, eventually, stored_run

from afl.kernel.errors import PayloadError
from afl.runtime.entities import RunnerState
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.types import EventId, WorkflowId


def test_a_new_run_that_nobody_holds(store: PersistenceAPI) -> None:
    run = a_run(epoch=0, inputs={"n": [1, {"a.b": 2}]}, state=RunnerState.CREATED, reason="")
    assert store.insert_run(run)
    assert stored_run(store) == run
    assert store.get_due_runs() == [RUN]
    assert not store.insert_run(a_run(epoch=0, outputs={"other": 1}))
    assert stored_run(store) == run
    with pytest.raises(PayloadError):
        store.insert_run(a_run("bad", inputs={"x": object()}))
    assert store.get_run(WorkflowId("bad")) is None
    taken = store.take_run(RUN, lease_ms=LONG)
    assert taken is not None
    assert taken.epoch == 1


def test_runs_are_found_by_all_that_is_asked_for(store: PersistenceAPI) -> None:
    for name in ("a-1", "a-2", "b-1", "b-2", "b-3"):
        state = RunnerState.FAILED if name.endswith("2") else RunnerState.RUNNING
        begin(store, name, state=state, inputs={"large": name})

    def ids(**asked: Any) -> list[str]:
        return [run.workflow_id for run in store.find_runs(RunFilter(**asked))]

    assert ids() == ["b-3", "b-2", "b-1", "a-2", "a-1"]
    assert ids(prefix="a") == ["a-2", "a-1"]
    assert ids(prefix="b-3") == ["b-3"]
    assert ids(prefix="b.3") == ids(prefix="%") == ids(prefix="_-1") == []
    assert ids(state=RunnerState.FAILED) == ["b-2", "a-2"]
    assert ids(workflow="ns.W", limit=2) == ["b-3", "b-2"]
    assert ids(workflow="ns.Other") == []
    assert ids(before="b-2", limit=2) == ["b-1", "a-2"]
    assert ids(prefix="b", before="b-3", state=RunnerState.RUNNING) == ["b-1"]
    assert ids(limit=0) == []
    assert [run.inputs for run in store.find_runs(RunFilter(prefix="a-1"))] == [{}]
    assert stored_run(store, "a-1").inputs == {"large": "a-1"}


def test_due_runs_are_those_that_need_an_evaluator_and_have_none(store: PersistenceAPI) -> None:
    """A sweep looks for them: a run that somebody holds is that one's business until its lease ends."""
    settled: dict[str, Any] = {"owner": "", "settled": True}
    begin(store, "marked", **settled)
    begin(store, "held-marked", settled=True)
    begin(store, "held-between")
    begin(store, "over", owner="", state=RunnerState.COMPLETED)
    begin(store, "paused", owner="", state=RunnerState.PAUSED)
    begin(store, "unmarked", **settled)
    begin(store, "between", owner="")
    begin(store, "created", owner="", state=RunnerState.CREATED)
    for workflow_id in ("marked", "held-marked", "over", "paused", "unknown", "between"):
        store.save_event(a_mark(f"mark-{workflow_id}", workflow_id))
        store.save_event(a_mark(f"mark2-{workflow_id}", workflow_id))
    assert store.get_due_runs() == ["between", "created", "marked"]


@pytest.mark.parametrize("settled", [True, False])
def test_a_run_is_due_once_its_holder_lets_it_go(store: PersistenceAPI, settled: bool) -> None:
    run = begin(store, settled=settled)
    if settled:
        store.save_event(a_mark("m"))
    assert store.get_due_runs() == []
    store.release_run(run)
    assert store.get_due_runs() == [RUN]
    assert store.take_run(RUN, lease_ms=LONG) is not None
    assert store.get_due_runs() == []


def test_a_run_is_due_once_the_lease_of_its_holder_ended(store: PersistenceAPI) -> None:
    begin(store, owner="")
    assert store.take_run(RUN, lease_ms=1) is not None
    assert eventually(store.get_due_runs) == [RUN]


def test_a_run_at_a_fixed_point_is_due_no_more(store: PersistenceAPI) -> None:
    run = begin(store)
    store.save_event(a_mark("m"))
    run.settled, run.owner = True, ""
    store.commit(IterationChanges(run=run, consumed_events=[EventId("m")]))
    assert store.get_due_runs() == []


def test_due_runs_come_oldest_run_first(store: PersistenceAPI) -> None:
    runs = ["run-5", "run-2", "run-9", "run-1", "run-4"]
    for number, workflow_id in enumerate(runs):
        begin(store, workflow_id, owner="", settled=number % 2 == 0)
        if number % 2 == 0:
            store.save_event(a_mark(f"mark-{workflow_id}", workflow_id))
    assert store.get_due_runs() == sorted(runs)
    assert store.get_due_runs(limit=2) == sorted(runs)[:2]
    assert store.get_due_runs(limit=0) == []
