"""What lists of runs ask of every store: what runs wait for, how many are in a state, how their inputs begin."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import LONG, a_run, a_task, a_waiting_step

from afl.runtime.entities import RunDefinition, RunnerState, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.run_lists import OpenWork, Waits
from afl.runtime.types import WorkflowId

HELD: dict[str, dict[str, Any]] = {
    Waits.PERSON: {"hold": TaskHold.ELSEWHERE, "via": "human:finance"},
    Waits.SIGNAL: {"hold": TaskHold.ELSEWHERE, "via": "signal:paid"},
    Waits.RUN: {"hold": TaskHold.ELSEWHERE, "via": "run:child-1"},
    Waits.TIMER: {"hold": TaskHold.TIMER, "deadline": 2**50},
    Waits.SLOT: {"hold": TaskHold.CONCURRENCY, "concurrency_key": "k", "concurrency_limit": 1},
    Waits.RETRY: {"failures": 1, "not_before": 1},
    Waits.AGENT: {},
}


def run_with_task(store: PersistenceAPI, run: str, **task: Any) -> None:
    store.insert_run(a_run(run, state=RunnerState.RUNNING))
    store.save_step(a_waiting_step(f"{run}/s", run))
    store.save_task(a_task(f"task-{run}", step_id=f"{run}/s", workflow_id=run, **task))


def found(store: PersistenceAPI, **wanted: Any) -> set[str]:
    return {run.workflow_id for run in store.find_runs(RunFilter(**wanted))}


def test_runs_are_found_by_what_they_wait_for(store: PersistenceAPI) -> None:
    for kind, task in HELD.items():
        run_with_task(store, kind, **task)
    for kind in ("agent", "fleet", "message"):
        run_with_task(store, f"at-{kind}", hold=TaskHold.ELSEWHERE, via=f"{kind}:writer")
    run_with_task(store, "ended", state=TaskState.COMPLETED, via="human:finance")
    for kind in HELD:
        # A retry is to be claimed as well; what is handed on may have nobody to do so.
        extra = {Waits.RETRY, "at-agent", "at-fleet", "at-message"} if kind == Waits.AGENT else set()
        assert found(store, waits=(kind,)) == {kind, *extra}
    assert found(store, waits=(Waits.PERSON, Waits.TIMER)) == {Waits.PERSON, Waits.TIMER}
    assert found(store, waits=(Waits.PERSON,), prefix="per") == {Waits.PERSON}
    assert found(store, waits=(Waits.PERSON,), prefix="tim") == set()
    assert found(store, waits=(Waits.PERSON,), state=RunnerState.PAUSED) == set()


def test_runs_that_are_paused_without_budget_are_found(store: PersistenceAPI) -> None:
    for run, reason in (("b1", "budget of 1 USD is used up"), ("p1", "paused by operator ada"), ("b2", "")):
        store.insert_run(a_run(run, state=RunnerState.PAUSED, reason=reason))
    assert found(store, waits=(Waits.BUDGET,), state=RunnerState.PAUSED) == {"b1"}


@pytest.mark.parametrize("kind", list(HELD))
def test_open_work_tells_what_it_waits_for(store: PersistenceAPI, kind: str) -> None:
    run_with_task(store, "r1", **HELD[kind])
    run_with_task(store, "other", **HELD[kind])
    via = HELD[kind].get("via", "")
    (work,) = store.get_open_work([WorkflowId("r1")])
    assert work == OpenWork(
        workflow_id="r1",
        name="ns.F",
        task_list="default",
        state=TaskState.PENDING,
        hold=HELD[kind].get("hold", ""),
        via="run:" if kind == Waits.RUN else via,
        retried=kind == Waits.RETRY,
        rated=False,
        count=1,
    )


def test_open_work_is_counted_by_what_is_alike(store: PersistenceAPI) -> None:
    store.insert_run(a_run("r1", state=RunnerState.RUNNING))
    for number in range(3):
        store.save_step(a_waiting_step(f"r1/{number}", "r1"))
        store.save_task(a_task(f"t{number}", step_id=f"r1/{number}", workflow_id="r1"))
    assert store.claim_task(["ns.F"], owner="worker", lease_ms=LONG) is not None
    work = store.get_open_work([WorkflowId("r1")])
    assert {each.state: each.count for each in work} == {TaskState.PENDING: 2, TaskState.RUNNING: 1}
    assert store.get_open_work([]) == [] and store.get_open_work([WorkflowId("gone")]) == []


def test_runs_of_a_state_are_counted_as_far_as_asked(store: PersistenceAPI) -> None:
    for number in range(3):
        store.insert_run(a_run(f"open-{number}", state=RunnerState.CREATED))
        store.insert_run(a_run(f"failed-{number}", state=RunnerState.FAILED))
    for state in (RunnerState.CREATED, RunnerState.FAILED):
        assert [store.count_runs_up_to(state, most) for most in (2, 9)] == [2, 3]
    assert store.count_runs_up_to(RunnerState.PAUSED, 9) == 0


def test_of_named_runs_those_that_ended_are_removed(store: PersistenceAPI) -> None:
    for run, ended in (("old", 5), ("older", 4), ("other", 3), ("open", 0)):
        state = RunnerState.COMPLETED if ended else RunnerState.RUNNING
        store.insert_run(a_run(run, state=state, ended=ended))
    assert store.delete_runs(10, 10, []) == 0
    assert store.delete_runs(10, 1, ["old", "older"]) == 1
    assert store.delete_runs(10, 10, ["old", "older", "open", "nobody"]) == 1
    assert found(store) == {"other", "open"}


def test_the_inputs_of_runs_begin_as_json(store: PersistenceAPI) -> None:
    store.insert_run(a_run("r1", inputs={"order": 7, "text": "x" * 500}))
    store.insert_run(a_run("r2", inputs={}))
    (begins,) = store.get_leading_inputs([WorkflowId("r1"), WorkflowId("r2")], length=20).values()
    assert begins.replace(" ", "").startswith('{"order":7,"text"') and len(begins) == 20
    assert store.get_leading_inputs([]) == {}


def test_a_list_by_state_or_workflow_goes_on_behind_a_run(store: PersistenceAPI) -> None:
    for number in range(6):
        state = RunnerState.FAILED if number % 2 else RunnerState.COMPLETED
        store.insert_run(RunDefinition(f"r{number}", f"W{number % 3}", "h", state, created=number // 2))

    def pages(**wanted: Any) -> list[str]:
        seen: list[str] = []
        while page := store.find_runs(RunFilter(limit=1, before=seen[-1] if seen else "", **wanted)):
            seen += [run.workflow_id for run in page]
        return seen

    assert pages(state=RunnerState.FAILED) == ["r5", "r3", "r1"]
    assert pages(workflow="W0") == ["r3", "r0"]
    assert pages(workflow="W0", state=RunnerState.COMPLETED) == ["r0"]
    assert pages(state=RunnerState.RUNNING) == []
