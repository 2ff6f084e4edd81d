"""The in-memory store: copies in and out, steps by place, locks with owners, servers, logs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from engine_bench import Engine
from runtime_programs import ASK

from afl.kernel.errors import PayloadError
from afl.runtime.entities import (
    LockMetaData,
    LogDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    WorkflowDefinition,
)
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import EventDefinition, IterationChanges, PersistenceAPI
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, ObjectType, StatementId, StepId, WorkflowId

RUN = WorkflowId("run")


def make_step(step_id: str = "s", state: str = StepState.CREATED, **places: Any) -> StepDefinition:
    step = StepDefinition(StepId(step_id), ObjectType.VARIABLE_ASSIGNMENT, RUN, **places)
    step.change_state(state)
    return step


def make_task(uuid: str, name: str = "ns.F", step_id: str | None = None, **fields: Any) -> TaskDefinition:
    return TaskDefinition(
        uuid, name, "runner", RUN, "flow", f"step-{uuid}" if step_id is None else step_id, **fields
    )


def test_it_is_a_store(store: MemoryStore) -> None:
    assert isinstance(store, PersistenceAPI)


# -- copies ---------------------------------------------------------------------------------------------------


def test_a_step_is_copied_in_and_out(store: MemoryStore) -> None:
    step = make_step()
    step.set_attribute("a", {"list": [1]})
    store.save_step(step)
    step.attributes.params["a"].value["list"].append(2)
    step.change_state(StepState.STATEMENT_ERROR)
    first = store.get_step(step.id)
    assert first is not None
    assert (first.state, first.get_attribute("a")) == (StepState.CREATED, {"list": [1]})
    first.attributes.params["a"].value["list"].append(3)
    second = store.get_step(step.id)
    assert second is not None
    assert second is not first
    assert second.get_attribute("a") == {"list": [1]}


def _changed_server(store: MemoryStore) -> list[Any]:
    server = ServerDefinition("u", "g", "s", "h", handlers=["a"])
    store.save_server(server)
    server.handlers.append("b")
    found = store.get_server("u")
    assert found is not None
    found.handlers.append("c")
    again = store.get_server("u")
    assert again is not None
    return again.handlers


def _changed_task(store: MemoryStore) -> list[Any]:
    task = make_task("u", data={"list": ["a"]})
    store.save_task(task)
    assert task.data is not None
    task.data["list"].append("b")
    found = store.get_task("u")
    assert found is not None
    assert found.data is not None
    found.data["list"].append("c")
    again = store.get_task("u")
    assert again is not None
    assert again.data is not None
    return list(again.data["list"])


def _changed_event(store: MemoryStore) -> list[Any]:
    event = EventDefinition(EventId("u"), StepId("s"), RUN, EventState.CREATED, "F", {"list": ["a"]})
    store.save_event(event)
    event.payload["list"].append("b")
    found = store.get_event(event.id)
    assert found is not None
    found.payload["list"].append("c")
    again = store.get_event(event.id)
    assert again is not None
    return list(again.payload["list"])


def _changed_runner(store: MemoryStore) -> list[Any]:
    workflow = WorkflowDefinition("w", "W", "", "", "", "", "1")
    runner = RunnerDefinition("u", "run", workflow, step_id="a")
    store.save_runner(runner)
    runner.step_id = "b"
    found = store.get_runner("u")
    assert found is not None
    found.step_id = "c"
    again = store.get_runner("u")
    assert again is not None
    return [again.step_id]


@pytest.mark.parametrize(
    "change", [_changed_server, _changed_task, _changed_event, _changed_runner], ids=lambda f: f.__name__[9:]
)
def test_every_record_is_copied_in_and_out(
    store: MemoryStore, change: Callable[[MemoryStore], list[Any]]
) -> None:
    assert change(store) == ["a"]


def test_concurrent_invocations_do_not_meet_in_memory(engine: Engine) -> None:
    results = [engine.run(ASK, {"i": i}) for i in range(8)]
    steps = {step.workflow_id: step.id for step in engine.store.get_steps_by_state(StepState.EVENT_TRANSMIT)}
    evaluator = Evaluator(engine.store)
    start = Barrier(8)

    def finish(run: WorkflowId, value: int) -> Any:
        start.wait()
        evaluator.continue_step(steps[run], {"o": value})
        return evaluator.resume(run, engine.workflow, engine.program).outputs

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(finish, [result.workflow_id for result in results], range(8)))
    assert answers == [{"r": value} for value in range(8)]


# -- steps ----------------------------------------------------------------------------------------------------


def test_steps_by_place_and_state(store: MemoryStore) -> None:
    root = make_step("root")
    block = StepDefinition(StepId("b"), ObjectType.AND_THEN, RUN, container_id=root.id, root_id=root.id)
    inner = make_step(
        "i", StepState.EVENT_TRANSMIT, block_id=BlockId("b"), container_id=root.id, root_id=root.id,
        statement_id=StatementId("st"),
    )  # fmt: skip
    for step in (root, block, inner):
        store.save_step(step)
    assert {step.id for step in store.get_steps_by_workflow(RUN)} == {"root", "b", "i"}
    assert [step.id for step in store.get_steps_by_block(block.id)] == ["i"]
    assert [step.id for step in store.get_steps_by_state(StepState.EVENT_TRANSMIT)] == ["i"]
    assert {step.id for step in store.get_steps_by_container(root.id)} == {"b", "i"}
    assert [step.id for step in store.get_blocks_by_step(root.id)] == ["b"]
    found = store.get_workflow_root(RUN)
    assert found is not None
    assert found.id == "root"
    assert store.step_exists("st", StepId("b"))
    assert not store.step_exists("st", None)
    assert not store.step_exists("other", StepId("b"))
    assert store.get_step(StepId("nope")) is None
    assert store.get_workflow_root(WorkflowId("nope")) is None


def test_counts_and_clear(store: MemoryStore) -> None:
    changes = IterationChanges()
    changes.add_created_step(make_step("a"))
    changes.add_created_step(make_step("b"))
    changes.add_created_event(EventDefinition(EventId("e"), StepId("a"), RUN, EventState.CREATED, "F"))
    store.commit(changes)
    assert (store.step_count(), store.event_count()) == (2, 1)
    assert {step.id for step in store.get_all_steps()} == {"a", "b"}
    store.clear()
    assert (store.step_count(), store.event_count(), store.get_all_steps()) == (0, 0, [])


def test_a_commit_replaces_updated_steps_and_events(store: MemoryStore) -> None:
    store.save_step(make_step("a"))
    event = EventDefinition(EventId("e"), StepId("a"), RUN, EventState.CREATED, "F")
    store.save_event(event)
    changes = IterationChanges()
    changes.add_updated_step(make_step("a", StepState.STATEMENT_COMPLETE))
    event.state = EventState.COMPLETED
    changes.add_updated_event(event)
    store.commit(changes)
    step, stored = store.get_step(StepId("a")), store.get_event(event.id)
    assert step is not None
    assert stored is not None
    assert (step.is_complete, stored.state) == (True, EventState.COMPLETED)


def test_what_is_no_plain_data_is_refused_whole(store: MemoryStore) -> None:
    changes = IterationChanges()
    changes.add_created_step(make_step("good"))
    bad = make_step("bad")
    bad.set_attribute("x", object())
    changes.add_created_step(bad)
    with pytest.raises(PayloadError):
        store.commit(changes)
    assert store.step_count() == 0


# -- locks, servers, logs -------------------------------------------------------------------------------------


def test_a_lock_is_held_released_and_taken_again(store: MemoryStore) -> None:
    meta = LockMetaData(topic="t", handler="h", step_name="n", step_id="s")
    assert store.acquire_lock("k", 60_000, meta)
    assert not store.acquire_lock("k", 60_000)
    held = store.check_lock("k")
    assert held is not None
    assert (held.key, held.meta) == ("k", meta)
    assert held.expires_at - held.acquired_at == 60_000
    assert store.release_lock("k")
    assert not store.release_lock("k")
    assert store.check_lock("k") is None
    assert store.acquire_lock("k", 60_000)


def test_extending_a_lock(store: MemoryStore) -> None:
    assert not store.extend_lock("k", 1000)
    store.acquire_lock("k", 1000)
    assert store.extend_lock("k", 90_000)
    held = store.check_lock("k")
    assert held is not None
    assert held.expires_at - held.acquired_at >= 90_000
    assert store.extend_lock("k", 90_000)


def test_an_expired_lock_is_free(store: MemoryStore) -> None:
    assert store.acquire_lock("k", -1)
    assert store.check_lock("k") is None
    assert not store.extend_lock("k", 1000)
    assert store.acquire_lock("k", 60_000)


def test_a_lock_belongs_to_its_owner(store: MemoryStore) -> None:
    assert store.acquire_lock("k", 60_000, owner="me")
    assert not store.acquire_lock("k", 60_000, owner="you")
    assert not store.extend_lock("k", 60_000, owner="you")
    assert not store.release_lock("k", owner="you")
    assert store.acquire_lock("k", 60_000, owner="me")
    assert store.release_lock("k", owner="me")


def test_servers(store: MemoryStore) -> None:
    store.save_server(ServerDefinition("u", "g", "s", "h", handlers=["ns.F"], start_time=1))
    assert store.update_server_ping("u", 42)
    found = store.get_server("u")
    assert found is not None
    assert (found.ping_time, found.state, found.handlers) == (42, "startup", ["ns.F"])
    found.state = "running"
    store.save_server(found)
    assert [server.state for server in store.get_all_servers()] == ["running"]
    assert not store.update_server_ping("nope", 1)
    assert store.get_server("nope") is None


def test_logs_come_by_order(store: MemoryStore) -> None:
    for order in (2, 1, 3):
        store.save_log(LogDefinition(str(order), order, "runner"))
    assert [log.order for log in store.get_logs_by_runner("runner")] == [1, 2, 3]
    assert store.get_logs_by_runner("other") == []
