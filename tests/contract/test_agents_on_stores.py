"""Pollers and runners on every store: work is done once, failures are final, the dead are replaced."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from store_records import OpenStore
from support.agents import (
    DOUBLE,
    LONG,
    SECONDS,
    Gate,
    Recorder,
    begin,
    double,
    ended,
    only_task,
    program,
    received,
    run_of,
    server_of,
    serving,
    submit,
)

from afl.runtime.agent import ToolRegistry
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import (
    FlowDefinition,
    FlowIdentity,
    RunnerState,
    ServerState,
    SourceText,
    TaskDefinition,
    TaskState,
)
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.runner.service import RunnerConfig, RunnerService
from afl.runtime.task_handlers.handler import HandlerContext, Handlers
from afl.runtime.types import StepId
from afl.runtime.worker.held_runs import HeldRuns

POLICIES = """
namespace ns {
    event facet Double(n: Long) => (m: Long)
    workflow Patient(n: Long) => (m: Long) andThen {
        d = Double($.n) with Retry(3, backoff = 1)
        yield Patient(m = d.m)
    }
    workflow Hasty(n: Long) => (m: Long) andThen {
        d = Double($.n) with Timeout(ms = 30)
        yield Hasty(m = d.m)
    }
}
"""


def refuse(payload: dict[str, Any]) -> dict[str, Any]:
    raise ValueError(f"{payload['n']} is refused")


def poller_on(store: PersistenceAPI, work: Any = double, **terms: Any) -> AgentPoller:
    config = AgentPollerConfig(**{"poll_interval_ms": 50, "heartbeat_interval_ms": 20, **terms})
    poller = AgentPoller(store, Evaluator(store), config)
    poller.register("Double", work)
    return poller


def runner_on(store: PersistenceAPI, work: Any = double, **terms: Any) -> RunnerService:
    registry = ToolRegistry()
    handlers = None
    if isinstance(work, Handlers):
        handlers = work
    elif work is not None:
        registry.register("Double", work)
    config = RunnerConfig(**{"http": False, "poll_interval_ms": 50, "heartbeat_interval_ms": 20, **terms})
    return RunnerService(store, Evaluator(store), config, registry, handlers=handlers)


# -- pollers --------------------------------------------------------------------------------------------------


def test_a_poller_polls_once(store: PersistenceAPI) -> None:
    run = begin(store, "ns.Twice")
    assert poller_on(store).poll_once() == 2
    assert run_of(store, run).outputs == {"m": 12}
    assert [task.state for task in store.get_tasks_by_workflow(run)] == [TaskState.COMPLETED] * 2


def test_a_poller_at_work(store: PersistenceAPI) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api)
    with serving(poller, recorder):
        assert server_of(store, poller.server_id).state == ServerState.RUNNING
        run = begin(store, "ns.Many", {"list": list(range(12))})
        assert ended(store, run).outputs == {"all": [n * 2 for n in range(12)]}
    assert recorder.states() == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]
    assert server_of(store, poller.server_id).state == ServerState.SHUTDOWN


def test_a_failure_is_final(store: PersistenceAPI) -> None:
    run, poller = begin(store), poller_on(store, refuse)
    assert [poller.poll_once(), poller.poll_once()] == [1, 0]
    task = only_task(store, run)
    assert (task.state, task.error) == (TaskState.FAILED, {"message": "3 is refused", "type": "ValueError"})
    assert run_of(store, run).state == RunnerState.FAILED


def test_what_failed_can_be_tried_again(store: PersistenceAPI) -> None:
    run = begin(store, "ns.Many", {"list": [1, 2, 3]})
    assert poller_on(store, lambda p: refuse(p) if p["n"] == 2 else double(p)).poll_once() == 3
    assert run_of(store, run).state == RunnerState.FAILED
    assert Evaluator(store).retry(run) == 1
    Evaluator(store).resume(run)
    assert poller_on(store).poll_once() == 1
    assert run_of(store, run).outputs == {"all": [2, 4, 6]}


def test_a_run_that_was_canceled_can_go_on(store: PersistenceAPI) -> None:
    run = begin(store, "ns.Twice")
    assert poller_on(store, max_concurrent=1).poll_once() == 1
    assert store.cancel_run(run, "enough")
    assert poller_on(store).poll_once() == 0
    assert Evaluator(store).retry(run) == 1
    Evaluator(store).resume(run)
    assert poller_on(store).poll_once() == 1
    assert run_of(store, run).outputs == {"m": 12}


# -- runners --------------------------------------------------------------------------------------------------


def test_a_runner_does_one_cycle(store: PersistenceAPI) -> None:
    run, locked = submit(store, "ns.Twice"), []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        (task,) = store.find_tasks(TaskFilter(state=TaskState.RUNNING))
        locked.append(store.check_lock(f"runner:task:{task.uuid}"))
        return double(payload)

    assert runner_on(store, work).run_once() == 2
    assert run_of(store, run).outputs == {"m": 12}
    assert len(locked) == 2
    assert all(lock is not None and lock.owner == store.owner_id for lock in locked)


def test_a_runner_at_work_hears_of_everything(store: PersistenceAPI) -> None:
    recorder = Recorder(store)
    with serving(runner_on(recorder.api, poll_interval_ms=LONG), recorder):
        first, second = submit(store, "ns.Twice"), begin(store)
        assert ended(store, first).outputs == {"m": 12}
        assert ended(store, second).outputs == {"m": 6}


def test_runners_of_several_processes_do_everything_once(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]
    recorders = [Recorder(store) for store in stores]
    done: list[tuple[int, int]] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        done.append((payload["n"], 1))
        return double(payload)

    services = [runner_on(each.api, work, max_concurrent=2) for each in recorders]
    with serving(services[0], recorders[0]), serving(services[1], recorders[1]):
        runs = [submit(stores[2], "ns.Many", {"list": list(range(10))}) for _ in range(4)]
        for run in runs:
            assert ended(stores[2], run).outputs == {"all": [n * 2 for n in range(10)]}
    assert len(done) == 40


def test_execute_and_resume(store: PersistenceAPI) -> None:
    flow = FlowDefinition("f1", FlowIdentity("f", "/f", "f1"), compiled_sources=[SourceText("f.afl", DOUBLE)])
    store.save_flow(flow)
    data = {"flow_id": "f1", "workflow_name": "ns.Once", "inputs": {"n": 5}}
    store.save_task(TaskDefinition("t1", "afl:execute", "", "", "", "", data=data))
    assert runner_on(store, None).run_once() == 1
    started = store.get_task("t1")
    assert started is not None
    assert started.result is not None
    run = started.result["workflow_id"]
    step = store.get_step(StepId(only_task(store, run).step_id))
    assert step is not None
    step.set_attribute("m", 9, is_return=True)
    store.save_step(step)
    store.save_task(TaskDefinition("t2", "afl:resume", "", "", "", "", data={"step_id": step.id}))
    assert runner_on(store, None).run_once() == 1
    assert run_of(store, run).outputs == {"m": 9}


def test_a_step_whose_task_somebody_completed_by_hand_goes_on(store: PersistenceAPI) -> None:
    run = begin(store)
    task = only_task(store, run)
    step = store.get_step(StepId(task.step_id))
    assert step is not None
    step.set_attribute("m", 4, is_return=True)
    store.save_step(step)
    task.state = TaskState.COMPLETED
    store.save_task(task)
    runner_on(store, None).run_once()
    assert run_of(store, run).outputs == {"m": 4}


@pytest.mark.parametrize(("failures", "state"), [(2, RunnerState.COMPLETED), (3, RunnerState.FAILED)])
def test_retries_that_the_workflow_asks_for(store: PersistenceAPI, failures: int, state: str) -> None:
    left = [failures]

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        left[0] -= 1
        return refuse(payload) if left[0] >= 0 else double(payload)

    recorder = Recorder(store)
    run = submit(store, "ns.Patient", source=POLICIES)
    with serving(runner_on(recorder.api, work), recorder):
        assert ended(store, run).state == state
    assert (only_task(store, run).deliveries, only_task(store, run).failures) == (3, 2)


def test_a_handler_that_takes_too_long_is_told_and_its_step_fails(store: PersistenceAPI) -> None:
    told = threading.Event()

    def work(n: int, context: HandlerContext) -> dict[str, int]:
        if context.cancellation.wait(SECONDS):
            told.set()
        return {"m": n}

    recorder = Recorder(store)
    run = submit(store, "ns.Hasty", source=POLICIES)
    with serving(runner_on(recorder.api, Handlers.of({"Double": work})), recorder):
        assert ended(store, run).state == RunnerState.FAILED
        assert told.wait(SECONDS)
    assert only_task(store, run).error == {"message": "not done after 30 ms", "type": "Timeout"}


def test_canceling_a_run_tells_a_runner_of_another_process(open_store: OpenStore) -> None:
    here, there = open_store(), open_store()
    begun, told = threading.Event(), threading.Event()

    def work(n: int, context: HandlerContext) -> dict[str, int]:
        begun.set()
        if context.cancellation.wait(SECONDS):
            told.set()
        return {"m": n}

    recorder = Recorder(there)
    run = submit(here)
    with serving(runner_on(recorder.api, Handlers.of({"Double": work}), poll_interval_ms=LONG), recorder):
        assert begun.wait(SECONDS)
        assert here.cancel_run(run, "enough")
        assert told.wait(SECONDS)
    assert (only_task(here, run).state, only_task(here, run).result) == (TaskState.CANCELED, None)


def test_a_task_whose_lease_ended_is_delivered_again_and_the_late_answer_refused(
    store: PersistenceAPI,
) -> None:
    run = begin(store)
    late = store.claim_task(["Double"], owner="silent", lease_ms=1)
    assert late is not None
    recorder = Recorder(store)
    with serving(runner_on(recorder.api), recorder):
        assert ended(store, run).outputs == {"m": 6}
    assert (only_task(store, run).deliveries, only_task(store, run).expiries) == (2, 1)
    assert not Evaluator(store).continue_step(StepId(late.step_id), {"m": 0}, task=late)
    assert run_of(store, run).outputs == {"m": 6}


def test_the_end_gives_everything_back_at_once(store: PersistenceAPI) -> None:
    recorder, gate = Recorder(store), Gate()
    service = runner_on(recorder.api, gate, max_concurrent=2, shutdown_timeout_ms=1)
    run = submit(store, "ns.Many", {"list": list(range(5))})
    with serving(service, recorder):
        gate.called(2)
    assert service.abandoned == 2
    assert {(t.state, t.owner) for t in store.get_tasks_by_workflow(run)} == {(TaskState.PENDING, "")}
    assert run_of(store, run).owner == ""
    gate.open()
    assert runner_on(store).run_once() == 5
    assert run_of(store, run).outputs == {"all": [0, 2, 4, 6, 8]}


def test_a_paused_run_waits(store: PersistenceAPI) -> None:
    recorder, gate = Recorder(store), Gate()
    run = submit(store, "ns.Twice")
    with serving(runner_on(recorder.api, gate), recorder):
        gate.called()
        assert store.pause_run(run, "lunch")
        gate.open()
        received(store, "nothing", lambda: only_task(store, run).state == TaskState.COMPLETED)
        assert run_of(store, run).state == RunnerState.PAUSED
        assert store.unpause_run(run)
        received(store, f"run:{run}", lambda: run_of(store, run).is_over)
    assert run_of(store, run).outputs == {"m": 12}


def test_many_tasks_at_once(store: PersistenceAPI) -> None:
    recorder = Recorder(store)
    with serving(runner_on(recorder.api, max_concurrent=8), recorder):
        run = submit(store, "ns.Many", {"list": list(range(300))})
        assert ended(store, run).outputs == {"all": [n * 2 for n in range(300)]}
    tasks = store.get_tasks_by_workflow(run)
    assert {(task.state, task.deliveries, task.expiries) for task in tasks} == {(TaskState.COMPLETED, 1, 0)}


def test_tasks_have_a_lease_of_a_minute_and_runs_of_ten_seconds(store: PersistenceAPI) -> None:
    """However a task was claimed: a handler that blocks the interpreter is slow, not dead."""
    runs = HeldRuns(Evaluator(store), lambda task: True, lambda run: True)
    run = Evaluator(store).submit(program("ns.Many"), {"list": [1, 2]})
    before = store.now()
    runs.advance(run)
    claimed_at_creation = runs.take_claimed()
    begin(store)
    claimed = store.claim_task(["Double"], lease_ms=store.lease_ms)
    assert claimed is not None
    after = store.now()
    held = store.get_run(run)
    assert held is not None
    assert before + 10_000 <= held.lease_until <= after + 10_000
    for uuid in (claimed.uuid, *(task.uuid for task in claimed_at_creation)):
        task = store.get_task(uuid)
        assert task is not None
        assert before + 60_000 <= task.lease_until <= after + 60_000
    store.renew(store.owner_id, store.lease_ms)
    renewed, task = store.get_run(run), store.get_task(claimed.uuid)
    assert renewed is not None
    assert task is not None
    assert renewed.lease_until <= store.now() + 10_000 < task.lease_until <= store.now() + 60_000


# -- child runs -----------------------------------------------------------------------------------------------

FAMILY = """
namespace ns {
    event facet Double(n: Long) => (m: Long)
    workflow Child(n: Long) => (m: Long) andThen {
        d = Double($.n)
        yield Child(m = d.m)
    }
    workflow Middle(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
        c = Child(n = n) with Run()
        yield Middle(all = [c.m])
    }
    workflow Top(list: [Long]) => (all: [Long]) andThen {
        m = Middle(list = $.list) with Run(id = "middle")
        yield Top(all = m.all)
    }
}
"""


def test_runners_work_on_a_run_and_the_runs_below_it(open_store: OpenStore) -> None:
    stores = [open_store(), open_store()]
    with serving(runner_on(stores[0])), serving(runner_on(stores[1])):
        run = submit(stores[0], "ns.Top", {"list": [1, 2, 3]}, FAMILY)
        assert ended(stores[0], run).outputs == {"all": [2, 4, 6]}
    assert stores[0].count_children("middle") == {RunnerState.COMPLETED: 3}
    assert stores[0].get_unsettled_children() == []
