"""Runs and runner records. A run is held by at most one evaluator at a time, under (owner, epoch, lease).

Taking is one compare-and-set: of many takers of a free run one gets it, and the epoch it gets is what all its
commits are checked against.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from store_records import LONG, RUN, OpenStore, a_run, a_runner, a_workflow, begin, eventually

from afl.kernel.errors import HeldError, PayloadError
from afl.runtime.entities import (
    Parameter,
    RunDefinition,
    RunnerDefinition,
    RunnerState,
    RunOutcome,
    UserDefinition,
    WorkflowMetaData,
)
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.types import WorkflowId


def the_run(store: PersistenceAPI, workflow_id: str = RUN) -> RunDefinition:
    run = store.get_run(WorkflowId(workflow_id))
    assert run is not None
    return run


def taken(store: PersistenceAPI, lease_ms: int = LONG) -> RunDefinition:
    run = store.take_run(RUN, lease_ms=lease_ms)
    assert run is not None
    return run


def test_every_field_of_a_run_comes_back(store: PersistenceAPI) -> None:
    run = RunDefinition(
        workflow_id=RUN,
        workflow_name="ns.Wörk",
        program_hash="hash",
        state=RunnerState.FAILED,
        runner_id="runner",
        flow_id="flow",
        task_list="list",
        inputs={"n": None, "deep": [{"a.b": "\x00"}], "ü": 1.5},
        outputs={"": 1, "$x": [True]},
        error={"message": "no\x00", "line": 3},
        iterations=4,
        waiting=5,
        settled=True,
        created=6,
        updated=7,
        ended=8,
        owner="",
        epoch=9,
        reason="by an öperator",
    )
    store.commit(IterationChanges(run=run, new_run=True))
    assert store.get_run(RUN) == run
    assert store.get_outcomes([WorkflowId("gone"), RUN]) == [RunOutcome.of(run)]
    assert store.get_outcomes([]) == []


def test_a_run_that_is_not_there(store: PersistenceAPI) -> None:
    assert store.get_run(WorkflowId("missing")) is None
    assert store.take_run(WorkflowId("missing"), lease_ms=LONG) is None
    assert store.get_runs() == []
    store.release_run(a_run("missing"))
    assert store.get_runs() == []


def test_inputs_that_are_no_plain_data_are_refused(store: PersistenceAPI) -> None:
    with pytest.raises(PayloadError):
        begin(store, inputs={"x": object()})
    assert store.get_run(RUN) is None


def test_runs_go_by_their_time_whatever_their_ids_are(store: PersistenceAPI) -> None:
    ids = ["b", "order-7", "a", "order-10", "c"]
    for number, run in enumerate(ids):
        parent = "b/0/step" if run.startswith("order") else ""
        store.insert_run(
            a_run(run, state=RunnerState.CREATED, created=1000 + number // 2, parent_step=parent)
        )
    newest = ["c", "order-10", "a", "order-7", "b"]
    assert [run.workflow_id for run in store.get_runs()] == newest
    assert [run.workflow_id for run in store.find_runs()] == newest
    seen, last = [], ""
    while page := store.find_runs(RunFilter(before=last, limit=2)):
        seen += [run.workflow_id for run in page]
        last = seen[-1]
    assert seen == newest
    assert [run.workflow_id for run in store.find_runs(RunFilter(roots=True))] == ["c", "a", "b"]
    assert [run.workflow_id for run in store.find_runs(RunFilter(prefix="order"))] == ["order-10", "order-7"]
    behind = RunFilter(prefix="order", before="order-10")
    assert [run.workflow_id for run in store.find_runs(behind)] == ["order-7"]
    assert store.find_runs(RunFilter(before="nobody")) == []


def test_the_newest_runs_come_first(store: PersistenceAPI) -> None:
    for number in range(4):
        state = RunnerState.COMPLETED if number % 2 else RunnerState.RUNNING
        begin(store, f"run-{number}", created=number, state=state)
    assert [run.workflow_id for run in store.get_runs()] == ["run-3", "run-2", "run-1", "run-0"]
    assert [run.workflow_id for run in store.get_runs(limit=2)] == ["run-3", "run-2"]
    completed = store.get_runs(state=RunnerState.COMPLETED, limit=1)
    assert [run.workflow_id for run in completed] == ["run-3"]


def test_a_free_run_is_taken_under_a_new_epoch(store: PersistenceAPI) -> None:
    begin(store, owner="")
    run = taken(store)
    assert (run.owner, run.epoch) == (store.owner_id, 2)
    assert run.lease_until > 0
    assert the_run(store) == run


def test_who_takes_a_run_does_not_read_its_inputs_and_does_not_lose_them(store: PersistenceAPI) -> None:
    """They may be large, and whoever goes on with a run needs its steps."""
    begin(store, owner="", inputs={"n": 1})
    run = taken(store)
    assert run.inputs == {}
    run.iterations = 5
    store.commit(IterationChanges(run=run))
    assert (the_run(store).inputs, the_run(store).iterations) == ({"n": 1}, 5)


def test_a_held_run_is_refused_by_name_of_its_holder(open_store: OpenStore) -> None:
    """Also within one process: two evaluators of it do not share a hold."""
    store, other = open_store(), open_store()
    begin(store, owner="")
    mine = taken(store)
    for taker in (store, other):
        with pytest.raises(HeldError, match=RUN):
            taker.take_run(RUN, lease_ms=LONG)
    assert the_run(store) == mine


def test_a_new_run_is_held_by_who_began_it(store: PersistenceAPI) -> None:
    begin(store)
    assert the_run(store).owner == store.owner_id
    with pytest.raises(HeldError):
        store.take_run(RUN, lease_ms=LONG)


def test_a_released_run_can_be_taken(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    begin(store, owner="")
    store.release_run(taken(store))
    assert (the_run(store).owner, the_run(store).lease_until) == ("", 0)
    assert (taken(other).owner, the_run(store).epoch) == (other.owner_id, 3)


def test_a_hold_that_ended_cannot_release_the_next(store: PersistenceAPI) -> None:
    begin(store, owner="")
    old = taken(store)
    store.release_run(old)
    new = taken(store)
    store.release_run(old)
    assert the_run(store) == new


def test_a_run_whose_lease_ended_can_be_taken(store: PersistenceAPI) -> None:
    begin(store, owner="")
    taken(store, lease_ms=1)

    def take() -> RunDefinition | None:
        try:
            return taken(store)
        except HeldError:
            return None

    again = eventually(take)
    assert again is not None
    assert (again.owner, again.epoch) == (store.owner_id, 3)


@pytest.mark.parametrize(
    "state", [RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELED, RunnerState.PAUSED]
)
def test_a_run_that_cannot_go_on_is_shown_but_not_held(store: PersistenceAPI, state: str) -> None:
    begin(store, owner="", state=state)
    run = taken(store)
    assert (run.state, run.owner, run.epoch) == (state, "", 1)
    assert the_run(store) == run


def test_of_many_takers_at_once_one_gets_the_run(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    together = threading.Barrier(len(stores))

    def take(store: PersistenceAPI, workflow_id: str) -> RunDefinition | None:
        together.wait()
        try:
            return store.take_run(WorkflowId(workflow_id), lease_ms=LONG)
        except HeldError:
            return None

    for number in range(10):
        workflow_id = f"run-{number}"
        begin(stores[0], workflow_id, owner="")
        with ThreadPoolExecutor(len(stores)) as pool:
            answers = list(pool.map(take, stores, [workflow_id] * len(stores)))
        assert [run.epoch for run in answers if run is not None] == [2]


def test_takers_and_releasers_at_once_never_hold_the_same_epoch(open_store: OpenStore) -> None:
    """Whoever is answered a run that goes on holds it: also when the last holder lets go in between."""
    stores = [open_store() for _ in range(4)]
    begin(stores[0], owner="")
    together = threading.Barrier(len(stores))

    def work(store: PersistenceAPI) -> list[int]:
        together.wait()
        epochs = []
        for _ in range(25):
            try:
                run = taken(store)
            except HeldError:
                continue
            assert run.owner == store.owner_id
            epochs.append(run.epoch)
            store.release_run(run)
        return epochs

    with ThreadPoolExecutor(len(stores)) as pool:
        epochs = [epoch for part in pool.map(work, stores) for epoch in part]
    assert sorted(epochs) == list(range(2, 2 + len(epochs)))
    assert the_run(stores[0]).epoch == 1 + len(epochs)


def test_an_owner_has_a_name_of_its_own(open_store: OpenStore) -> None:
    store = open_store()
    assert store.owner_id
    assert store.owner_id == store.owner_id


# -- runner records -------------------------------------------------------------------------------------------


def test_every_field_of_a_runner_record_comes_back(store: PersistenceAPI) -> None:
    runner = RunnerDefinition(
        uuid="r",
        workflow_id=RUN,
        workflow=a_workflow(metadata=WorkflowMetaData("d", "a", ["t"]), documentation="doc", date=5),
        parameters=[Parameter("p", {"a.b": [None, "\x00"]}, "Map"), Parameter("q", 2.5)],
        step_id="step",
        user=UserDefinition("me@example.org", "Mé", "pic"),
        start_time=1,
        end_time=2,
        duration=3,
        retain=4,
        state=RunnerState.RUNNING,
    )
    store.save_runner(runner)
    assert store.get_runner("r") == runner
    store.save_runner(a_runner())
    assert store.get_runner("r") == a_runner()


def test_a_runner_record_that_is_not_there(store: PersistenceAPI) -> None:
    assert store.get_runner("missing") is None
    assert not store.update_runner_state("missing", RunnerState.PAUSED)
    assert store.get_all_runners() == []


def test_a_runner_record_is_a_copy(store: PersistenceAPI) -> None:
    runner = a_runner(parameters=[Parameter("p", [1])])
    store.save_runner(runner)
    runner.parameters[0].value.append(2)
    first = store.get_runner("r")
    assert first is not None
    first.parameters.clear()
    assert store.get_runner("r") == a_runner(parameters=[Parameter("p", [1])])


def test_the_state_of_a_runner_record_is_set_alone(store: PersistenceAPI) -> None:
    store.save_runner(a_runner(start_time=5))
    assert store.update_runner_state("r", RunnerState.PAUSED)
    assert store.update_runner_state("r", RunnerState.PAUSED)  # the same again is no failure
    assert store.get_runner("r") == a_runner(start_time=5, state=RunnerState.PAUSED)


def test_runner_records_are_found_newest_start_first(store: PersistenceAPI) -> None:
    for number, start in enumerate([5, 9, 1, 7]):
        state = RunnerState.RUNNING if start > 4 else RunnerState.FAILED
        store.save_runner(a_runner(f"r{number}", start_time=start, state=state, workflow_id=f"w{number % 2}"))

    def uuids(runners: list[RunnerDefinition]) -> list[str]:
        return [runner.uuid for runner in runners]

    assert uuids(store.get_all_runners()) == ["r1", "r3", "r0", "r2"]
    assert uuids(store.get_all_runners(limit=2)) == ["r1", "r3"]
    assert uuids(store.get_runners_by_state(RunnerState.RUNNING)) == ["r1", "r3", "r0"]
    assert uuids(store.get_runners_by_workflow(WorkflowId("w1"))) == ["r1", "r3"]
    assert uuids(store.get_runners_by_workflow(WorkflowId("missing"))) == []


def test_runs_are_found_by_name_and_by_all_of_some_tags(store: PersistenceAPI) -> None:
    both = RunDefinition("r1", "W", "h", created=1, name="Nightly", tags={"team": "data", "day": "1"})
    one = RunDefinition("r2", "W", "h", created=2, tags={"team": "data"})
    for run in (both, one, RunDefinition("r3", "W", "h", created=3)):
        assert store.insert_run(run)

    def found(**wanted: Any) -> list[str]:
        return [run.workflow_id for run in store.find_runs(RunFilter(**wanted))]

    stored = store.get_run(WorkflowId("r1"))
    assert stored is not None and (stored.name, stored.tags) == (both.name, both.tags)
    assert found(tags=("team=data",)) == ["r2", "r1"]
    assert found(tags=("team=data", "day=1")) == ["r1"]
    assert found(tags=("team=data",), before="r2") == ["r1"]
    assert found(tags=("team=data",), prefix="r2") == ["r2"]
    assert found(text="NIGHT") == ["r1"]
    taken = store.take_run(WorkflowId("r1"), lease_ms=1000)
    assert taken is not None and taken.tags == both.tags
    assert [run.tags for run in store.take_runs([WorkflowId("r2")], lease_ms=1000)] == [one.tags]
