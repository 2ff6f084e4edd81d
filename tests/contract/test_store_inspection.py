"""Rows that refer to what is not there."""

from __future__ import annotations

from store_records import a_run, a_step, a_task

from afl.runtime.entities import FlowDefinition, FlowIdentity, RunnerState, TaskState
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import OrphanKind, Orphans


def test_a_store_in_order_has_no_orphans(store: PersistenceAPI) -> None:
    assert store.find_orphans() == []
    store.save_program("hash", "{}")
    store.save_flow(FlowDefinition("f", FlowIdentity("f", "f", "f")))
    store.insert_run(a_run("run-1", state=RunnerState.RUNNING, flow_id="f"))
    store.save_step(a_step("run-1/s", "run-1"))
    store.save_task(a_task("t", workflow_id="run-1", step_id="run-1/s", flow_id="f"))
    store.save_task(a_task("loose", workflow_id="", flow_id=""))
    store.save_task(a_task("system", "afl:execute", workflow_id="some-workflow", flow_id="f"))
    store.save_task(a_task("over", workflow_id="gone", flow_id="gone", state=TaskState.COMPLETED))
    assert store.find_orphans() == []


def test_rows_whose_other_row_is_missing(store: PersistenceAPI) -> None:
    store.insert_run(a_run("run-1", state=RunnerState.RUNNING, settled=True))
    store.insert_run(a_run("run-2", state=RunnerState.COMPLETED, settled=True))
    for number in range(5):
        store.save_task(a_task(f"t{number}", workflow_id="run-9", step_id=f"run-9/s{number}", flow_id="f"))
    store.save_step(a_step("run-8/s", "run-8"))
    found = {each.kind: each for each in store.find_orphans(examples=2)}
    assert found == {
        OrphanKind.TASK_RUN: Orphans(OrphanKind.TASK_RUN, 5, ["t0", "t1"]),
        OrphanKind.TASK_STEP: Orphans(OrphanKind.TASK_STEP, 5, ["t0", "t1"]),
        OrphanKind.TASK_FLOW: Orphans(OrphanKind.TASK_FLOW, 5, ["t0", "t1"]),
        OrphanKind.STEP_RUN: Orphans(OrphanKind.STEP_RUN, 1, ["run-8/s"]),
        OrphanKind.RUN_PROGRAM: Orphans(OrphanKind.RUN_PROGRAM, 1, ["run-1"]),
        OrphanKind.RUN_STEPS: Orphans(OrphanKind.RUN_STEPS, 1, ["run-1"]),
    }


def test_a_commit_is_heard_where_the_store_tells_other_processes(store: PersistenceAPI) -> None:
    assert store.receives_commits(60.0) is (None if isinstance(store, MongoStore) else True)


def test_a_commit_is_heard_over_nats(store: PersistenceAPI, nats_url: str) -> None:
    store.doorbell = nats_url
    assert store.receives_commits(60.0) is True


def test_nothing_is_heard_where_notifications_are_switched_off(store: PersistenceAPI) -> None:
    store.doorbell = "none"
    assert store.receives_commits(60.0) is None


def test_a_server_that_is_not_there_is_not_heard(store: PersistenceAPI) -> None:
    store.doorbell = "nats://127.0.0.1:1"
    assert store.receives_commits(0.2) is False
