"""No stored row, however inconsistent, ends a worker or keeps the other runs from going on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from support.agents import SECONDS, Gate, begin, double, ended, only_task, received, run_of, submit
from support.eventually import eventually

from afl.kernel.database import Query
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.task_handlers.handler import Callback, Handlers
from afl.runtime.types import StepId, WorkflowId

CORRUPT = "CorruptRow"
OTHER = """
namespace other {
    event facet Double(n: Long) => (m: Long)
    workflow Once(n: Long) => (m: Long) andThen { d = Double($.n) yield Once(m = d.m) }
}
"""
GARBAGE = "{not json"


class Row(NamedTuple):
    """A kind of row, by the name of its table and of its collection, and the field that tells whose it is."""

    table: str
    collection: str
    key: str
    of_step: bool = False


RUN = Row("afl_runs", "runs", "workflow_id")
PROGRAM = Row("afl_programs", "programs", "hash")
ROOT = Row("afl_steps", "steps", "id")
STEP = Row("afl_steps", "steps", "id", of_step=True)
TASK = Row("afl_tasks", "tasks", "workflow_id")
INPUTS = Row("afl_inputs", "", "workflow_id")
SERVER = Row("afl_servers", "servers", "uuid")
EVENT = Row("afl_events", "events", "workflow_id")


def change(store: PersistenceAPI, row: Row, key: str, column: str = "", value: Any = GARBAGE) -> None:
    """Set a column of a row to what it should never have, or delete the row."""
    if isinstance(store, MongoStore):
        where = {{"id": "uuid"}.get(row.key, row.key): key}
        update = {"$set": {_path(column): value}}
        changed = store.connection.call(
            lambda db: (
                db[row.collection].update_many(where, update).modified_count
                if column
                else db[row.collection].delete_many(where).deleted_count
            )
        )
    else:
        assert isinstance(store, SqlStore)
        does = f"update {row.table} set {column} = :value" if column else f"delete from {row.table}"
        query = Query.of(f"{does} where {row.key} = :key", name=f"damage_{row.table}_{column}")
        given = {"key": key, "value": value} if column else {"key": key}
        changed = store.database.write(lambda tx: tx.run(query, **given))
    assert changed, "there is no such row"


def _path(column: str) -> str:
    """The field of a document that has what a column has."""
    return {"params": "attributes.params", "returns": "attributes.returns", "extra": "version"}.get(
        column, column
    )


@contextmanager
def at_work(service: AgentPoller | RunnerService) -> Iterator[None]:
    """The service on a thread of its own; whatever ends it is an error."""
    problems: list[BaseException] = []

    def work() -> None:
        try:
            service.start()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        eventually(lambda: service.is_running)
        yield
    finally:
        service.stop()
        thread.join(SECONDS)
    assert problems == []


def runner(store: PersistenceAPI, work: Callable[[dict[str, Any]], Any] = double) -> RunnerService:
    handlers = Handlers([Callback("Double", work)])
    return RunnerService(store, Evaluator(store), RunnerConfig(poll_interval_ms=20), handlers=handlers)


def poller(store: PersistenceAPI, work: Callable[[dict[str, Any]], Any] = double) -> AgentPoller:
    made = AgentPoller(store, Evaluator(store), AgentPollerConfig(poll_interval_ms=20))
    made.register("Double", work)
    return made


def paused(store: PersistenceAPI, run: WorkflowId) -> str:
    """Why the run is paused, once it is."""
    found = ended(store, run)
    assert found.state == RunnerState.PAUSED
    return found.reason


def failed_as_corrupt(store: PersistenceAPI, uuid: str) -> str:
    """What is said of the task, once it failed."""

    def look() -> dict[str, Any] | None:
        task = store.get_task(uuid)
        assert task is not None
        return task.error if task.state == TaskState.FAILED else None

    error = received(store, "tasks:default", look)
    assert error["type"] == CORRUPT
    return str(error["message"])


def the_others_go_on(store: PersistenceAPI) -> None:
    assert ended(store, begin(store, "other.Once", source=OTHER)).state == RunnerState.COMPLETED


# -- missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", [runner, poller])
def test_a_task_of_which_something_is_missing_fails(
    store: PersistenceAPI, face: Callable[..., AgentPoller | RunnerService]
) -> None:
    gate, no_run, no_step = Gate(), begin(store), begin(store)
    of_no_run, of_no_step = only_task(store, no_run), only_task(store, no_step)
    with at_work(face(store, gate)):
        gate.called(2)
        change(store, RUN, no_run)
        change(store, STEP, of_no_step.step_id)
        gate.open()
        assert "missing" in failed_as_corrupt(store, of_no_run.uuid)
        assert "missing" in failed_as_corrupt(store, of_no_step.uuid)
        assert of_no_step.step_id in paused(store, no_step)
        the_others_go_on(store)


@pytest.mark.parametrize("face", [runner, poller])
def test_a_task_whose_program_is_missing_fails(
    store: PersistenceAPI, face: Callable[..., AgentPoller | RunnerService]
) -> None:
    run = begin(store)
    task = only_task(store, run)
    change(store, PROGRAM, run_of(store, run).program_hash)
    with at_work(face(store)):
        assert "program" in failed_as_corrupt(store, task.uuid)
        assert "program" in paused(store, run)
        the_others_go_on(store)


def test_a_run_without_its_root_is_paused(store: PersistenceAPI) -> None:
    run = begin(store)
    change(store, ROOT, run)
    with at_work(runner(store)):
        assert run in paused(store, run)
        the_others_go_on(store)


def test_a_task_that_is_deleted_at_work_leaves_the_worker_alone(store: PersistenceAPI) -> None:
    gate, run = Gate(), begin(store)
    with at_work(runner(store, gate)):
        gate.called()
        change(store, TASK, run)
        gate.open()
        the_others_go_on(store)


@pytest.mark.parametrize("row", [RUN, STEP], ids=["run", "step"])
def test_polling_once_survives_what_is_missing(store: PersistenceAPI, row: Row) -> None:
    run = begin(store)
    task = only_task(store, run)
    change(store, row, task.step_id if row.of_step else run)
    assert poller(store).poll_once() == 1
    assert "missing" in failed_as_corrupt(store, task.uuid)
    other = begin(store)
    assert runner(store).run_once() == 1
    assert run_of(store, other).state == RunnerState.COMPLETED


# -- unreadable -----------------------------------------------------------------------------------------------


def test_a_task_that_cannot_be_read_fails_and_so_does_its_step(store: PersistenceAPI) -> None:
    runs = {column: begin(store) for column in ("data", "error", "retry", "bridge")}
    for column, run in runs.items():
        change(store, TASK, run, column)
    with at_work(runner(store)):
        for column, run in runs.items():
            assert column in failed_as_corrupt(store, only_task(store, run).uuid)
            over = ended(store, run)
            assert over.state == RunnerState.FAILED
            assert over.error is not None
            assert over.error["error_type"] == CORRUPT
        the_others_go_on(store)


@pytest.mark.parametrize("row", [ROOT, STEP], ids=["root", "step"])
def test_a_run_with_a_step_that_cannot_be_read_is_paused(store: PersistenceAPI, row: Row) -> None:
    runs = {column: begin(store) for column in ("params", "returns", "progress", "extra")}
    tasks = {column: only_task(store, run) for column, run in runs.items()}
    keys = {column: tasks[column].step_id if row.of_step else run for column, run in runs.items()}
    for column in runs:
        change(store, row, keys[column], column)
    with at_work(runner(store)):
        for column, run in runs.items():
            assert keys[column] in paused(store, run)
            if row is STEP:
                assert keys[column] in failed_as_corrupt(store, tasks[column].uuid)
        the_others_go_on(store)
    assert keys["params"] in {step.id for step in store.get_steps_by_workflow(runs["params"])}, "still listed"


def test_a_run_that_cannot_be_read_is_paused(store: PersistenceAPI) -> None:
    runs = {column: begin(store) for column in ("outputs", "error")}
    for column, run in runs.items():
        change(store, RUN, run, column)
    runs["inputs"] = submit(store)
    change(store, RUN if isinstance(store, MongoStore) else INPUTS, runs["inputs"], "inputs")
    with at_work(runner(store)):
        assert all(run in paused(store, run) for run in runs.values())
        the_others_go_on(store)
    assert {each.workflow_id for each in store.get_runs()} > set(runs.values()), "still listed"


def test_a_run_whose_program_cannot_be_read_is_paused(store: PersistenceAPI) -> None:
    run = begin(store)
    task = only_task(store, run)
    change(store, PROGRAM, run_of(store, run).program_hash, "compiled")
    with at_work(runner(store)):
        assert "program" in paused(store, run)
        assert "program" in failed_as_corrupt(store, task.uuid)
        the_others_go_on(store)


def test_a_run_that_is_told_something_unreadable_is_paused(store: PersistenceAPI) -> None:
    run = begin(store)
    Evaluator(store).continue_step(StepId(only_task(store, run).step_id), {"m": 6})
    change(store, EVENT, run, "payload")
    with at_work(runner(store)):
        assert "event" in paused(store, run)
        the_others_go_on(store)


def test_a_task_of_the_system_that_cannot_be_read_fails(store: PersistenceAPI) -> None:
    task = TaskDefinition("resume-1", "afl:resume", "", "no-run", "", "", data={"step_id": "s"})
    store.save_task(task)
    change(store, TASK, "no-run", "data")
    with at_work(runner(store)):
        assert "data" in failed_as_corrupt(store, task.uuid)
        the_others_go_on(store)


def test_records_that_no_run_needs_keep_nobody_from_work(store: PersistenceAPI) -> None:
    with at_work(runner(store)):
        server = received(store, "tasks:default", store.get_all_servers)[0]
        change(store, SERVER, server.uuid, "record")
        the_others_go_on(store)
        change(store, SERVER, server.uuid)
        the_others_go_on(store)
