"""Records for the tests of the stores, with every field set to something of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from afl.runtime.entities import (
    LogDefinition,
    RunDefinition,
    RunnerDefinition,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import STEP_CONTINUE, EventDefinition, IterationChanges, Outcome
from afl.runtime.postgres_store import PostgresStore
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.stores.sql_store.store import SqlStore
from afl.runtime.types import EventId, ObjectType, StepId, WorkflowId

T = TypeVar("T")
OpenStore = Callable[[], PersistenceAPI]

KINDS: dict[str, type[SqlStore | MongoStore]] = {
    "sqlite": SqliteStore,
    "postgres": PostgresStore,
    "mongo": MongoStore,
}
RUN = WorkflowId("run-1")
LONG = 600_000  # a lease that does not end during a test
SECONDS = 60.0  # after this long, what should have happened will not


def eventually(look: Callable[[], T | None]) -> T:
    """What `look` answers once that is anything; the store's clock moves on meanwhile."""
    deadline = time.monotonic() + SECONDS
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen"


def of_stores(offers: str = "", lacks: str = "") -> pytest.MarkDecorator:
    """The test is about the stores that declare a capability, or about those that do not."""
    chosen = [
        name
        for name, kind in KINDS.items()
        if (not offers or offers in kind.capabilities) and (not lacks or lacks not in kind.capabilities)
    ]
    assert chosen, "no store is left for the test"
    return pytest.mark.parametrize("open_store", chosen, indirect=True)


def a_step(
    step_id: str = "s", workflow_id: str = RUN, state: str = StepState.CREATED, **fields: Any
) -> StepDefinition:
    step = StepDefinition(
        id=StepId(step_id),
        object_type=fields.pop("object_type", ObjectType.VARIABLE_ASSIGNMENT),
        workflow_id=WorkflowId(workflow_id),
        **fields,
    )
    step.change_state(state)
    step.transition.commit()
    return step


def a_waiting_step(step_id: str = "s", workflow_id: str = RUN, **params: Any) -> StepDefinition:
    """A step whose work is outside."""
    step = a_step(step_id, workflow_id, StepState.EVENT_TRANSMIT, facet_name="ns.F")
    for name, value in params.items():
        step.set_attribute(name, value)
    return step


def stored_step(store: PersistenceAPI, step: StepDefinition) -> StepDefinition:
    store.save_step(step)
    found = store.get_step(step.id)
    assert found is not None
    return found


def a_step_with(value: Any, name: str = "v") -> StepDefinition:
    step = a_step()
    step.set_attribute(name, value)
    step.set_attribute(name, value, is_return=True)
    return step


def an_event(event_id: str = "e", workflow_id: str = RUN, **fields: Any) -> EventDefinition:
    given: dict[str, Any] = {
        "step_id": "s",
        "state": EventState.CREATED,
        "event_type": "ns.F",
        "payload": {"n": 1},
        **fields,
    }
    return EventDefinition(EventId(event_id), workflow_id=WorkflowId(workflow_id), **given)


def a_mark(event_id: str, workflow_id: str = RUN, step_id: str = "s") -> EventDefinition:
    """Word by hand that a step may go on."""
    return an_event(
        event_id, workflow_id, step_id=step_id, event_type=STEP_CONTINUE, payload={"step_id": step_id}
    )


def a_task(uuid: str = "t", name: str = "ns.F", workflow_id: str = RUN, **fields: Any) -> TaskDefinition:
    given: dict[str, Any] = {"runner_id": "r", "flow_id": "f", "step_id": "", **fields}
    return TaskDefinition(uuid, name, workflow_id=workflow_id, **given)


def a_run(workflow_id: str = RUN, **fields: Any) -> RunDefinition:
    given: dict[str, Any] = {"epoch": 1, **fields}
    return RunDefinition(workflow_id, "ns.W", "hash", **given)


def a_runner(uuid: str = "r", **fields: Any) -> RunnerDefinition:
    given: dict[str, Any] = {"workflow_id": RUN, "workflow": a_workflow(), **fields}
    return RunnerDefinition(uuid, **given)


def a_workflow(uuid: str = "w", name: str = "W", flow_id: str = "f", **fields: Any) -> WorkflowDefinition:
    return WorkflowDefinition(uuid, name, "n", "fc", flow_id, "start", "1.0", **fields)


def a_log(uuid: str = "l", order: int = 0, runner_id: str = "r", **fields: Any) -> LogDefinition:
    return LogDefinition(uuid, order, runner_id, **fields)


def stored_task(store: PersistenceAPI, uuid: str = "t") -> TaskDefinition:
    task = store.get_task(uuid)
    assert task is not None
    return task


def stored_run(store: PersistenceAPI, workflow_id: str = RUN) -> RunDefinition:
    run = store.get_run(WorkflowId(workflow_id))
    assert run is not None
    return run


def claimed(store: PersistenceAPI, owner: str = "worker", **terms: Any) -> TaskDefinition:
    """The next task, held by a worker whose lease does not end."""
    task = store.claim_task(["F"], owner=owner, **{"lease_ms": LONG, **terms})
    assert task is not None
    return task


def begun(store: PersistenceAPI, owner: str = "worker", **terms: Any) -> TaskDefinition:
    """The next task, in the hands of a worker whose handler has begun."""
    task = claimed(store, owner, **terms)
    store.start_tasks([task])
    found = store.get_task(task.uuid)
    assert found is not None
    return found


def begin(store: PersistenceAPI, workflow_id: str = RUN, **fields: Any) -> RunDefinition:
    """A stored run, held by the store's process unless `owner` says otherwise."""
    run = a_run(workflow_id, **{"owner": store.owner_id, **fields})
    store.commit(IterationChanges(run=run, new_run=True))
    return run


def wait_outside(store: PersistenceAPI, step_id: str = "s", **task_fields: Any) -> TaskDefinition:
    """A stored step that waits for outside work, with its task and event."""
    step = a_waiting_step(step_id, n=1)
    task = a_task(f"task-{step_id}", step_id=step_id, data={"n": 1}, **task_fields)
    changes = IterationChanges()
    changes.add_created_step(step)
    changes.add_created_task(task)
    changes.add_created_event(an_event(task.uuid, step_id=step_id))
    store.commit(changes)
    return task


def an_outcome(
    step: StepDefinition, task: TaskDefinition | None, state: str = TaskState.COMPLETED, **returns: Any
) -> Outcome:
    """The end of a step's work, as the evaluator words it."""
    for name, value in returns.items():
        step.set_attribute(name, value, is_return=True)
    if task is not None:
        task.state, task.updated = state, 77
        task.result = returns if state == TaskState.COMPLETED else None
    return Outcome(step, task)


@dataclass(frozen=True)
class Everything:
    """All that a store has of one run, to compare."""

    steps: list[StepDefinition]
    events: list[EventDefinition]
    tasks: list[TaskDefinition]
    run: RunDefinition | None
    runner: RunnerDefinition | None
    logs: list[LogDefinition]

    @classmethod
    def of(cls, store: PersistenceAPI, workflow_id: str = RUN) -> Everything:
        run_id = WorkflowId(workflow_id)
        return cls(
            store.get_steps_by_workflow(run_id),
            store.get_events_by_workflow(run_id),
            store.get_tasks_by_workflow(run_id),
            store.get_run(run_id),
            store.get_runner("r"),
            store.get_logs_by_runner("r"),
        )


NOTHING = Everything([], [], [], None, None, [])


def all_kinds(
    run: RunDefinition | None = None, new_run: bool = False, prefix: str = "new"
) -> IterationChanges:
    """Changes with something of every kind in them."""
    changes = IterationChanges(run=run, new_run=new_run)
    changes.add_created_step(a_waiting_step(f"{prefix}-1", n=1))
    changes.add_created_step(a_step(f"{prefix}-2"))
    changes.add_updated_step(a_step("old", state=StepState.STATEMENT_COMPLETE))
    changes.add_created_task(a_task(f"{prefix}-task", step_id=f"{prefix}-1", data={"n": 1}))
    changes.add_created_event(an_event(f"{prefix}-task", step_id=f"{prefix}-1"))
    changes.add_created_event(an_event(f"{prefix}-event"))
    changes.add_updated_event(an_event("old-event", state=EventState.COMPLETED))
    changes.updated_tasks.append(a_task("old-task", state=TaskState.COMPLETED, updated=5))
    changes.consumed_events.append(EventId("old-mark"))
    changes.logs.append(a_log(f"{prefix}-log"))
    return changes


def begin_with_all_kinds(store: PersistenceAPI) -> RunDefinition:
    """A held run with something of every kind in the store."""
    run = begin(store, runner_id="r")
    store.save_runner(a_runner(start_time=100))
    store.save_step(a_step("old"))
    store.save_event(an_event("old-event"))
    store.save_event(a_mark("old-mark"))
    store.save_task(a_task("old-task"))
    store.save_log(a_log("old-log"))
    return run
