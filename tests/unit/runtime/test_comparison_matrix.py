"""The comparison of the three ways to run agents (seed 000, section 11), row by row."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.agents import (
    DOUBLE,
    Gate,
    Recorder,
    begin,
    double,
    ended,
    only_task,
    program,
    run_of,
    serving,
    submit,
)
from support.threads import newcomers

from afl.runtime.agent import ClaudeAgentRunner, ToolRegistry
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.service import RunnerConfig, RunnerService
from afl.runtime.states import StepState
from afl.runtime.types import StepId


def poller(store: PersistenceAPI, work: Any = double, name: str = "Double", **terms: Any) -> AgentPoller:
    config = AgentPollerConfig(**{"poll_interval_ms": 20, "heartbeat_interval_ms": 5, **terms})
    made = AgentPoller(store, Evaluator(store), config)
    made.register(name, work)
    return made


def registry(work: Any = double, name: str = "Double") -> ToolRegistry:
    made = ToolRegistry()
    made.register(name, work)
    return made


def runner(store: PersistenceAPI, work: Any = double, name: str = "Double", **terms: Any) -> RunnerService:
    config = RunnerConfig(**{"http_port": 0, "poll_interval_ms": 20, "heartbeat_interval_ms": 5, **terms})
    return RunnerService(store, Evaluator(store), config, registry(work, name))


def claude(store: PersistenceAPI, work: Any = double, name: str = "Double") -> ClaudeAgentRunner:
    return ClaudeAgentRunner(Evaluator(store), store, tool_registry=registry(work, name))


def run_claude(store: PersistenceAPI, work: Any = double, name: str = "Double") -> ExecutionResult:
    wanted = program()
    node = dict(wanted.workflow.ast, name="ns.Once")
    return claude(store, work, name).run(node, {"n": 3}, wanted.compiled["program"])


@pytest.fixture
def recorder(store: MemoryStore) -> Iterator[Recorder]:
    yield Recorder(store)


def served(store: MemoryStore, kind: str) -> tuple[Recorder, str]:
    """A run that a poller or runner, started as a service, has brought to its end."""
    seen = Recorder(store)
    service: AgentPoller | RunnerService = poller(seen.api) if kind == "poller" else runner(seen.api)
    with serving(service, seen):
        run = begin(store)
        assert ended(store, run).outputs == {"m": 6}
    return seen, run


def test_task_queue_polling(store: MemoryStore, recorder: Recorder) -> None:
    for kind in ("poller", "runner"):
        seen, _ = served(store, kind)
        assert seen.count("claim_tasks") > 0
    queued = only_task(store, begin(store))
    assert run_claude(recorder.api).outputs == {"m": 6}
    assert not {"claim_task", "get_pending_tasks"} & set(recorder.names())
    assert recorder.count("claim_tasks") == 1  # that of its own run: nobody else does the same step
    (left,) = [task for task in store.get_all_tasks() if task.uuid == queued.uuid]
    assert left.state == TaskState.PENDING


def test_step_state_polling(store: MemoryStore, recorder: Recorder) -> None:
    """Only a runner looks for steps whose result is stored and whose task is gone."""
    run = begin(store)
    task = only_task(store, run)
    step = store.get_step(StepId(task.step_id))
    assert step is not None
    step.set_attribute("m", 1, is_return=True)
    store.save_step(step)
    task.state = TaskState.COMPLETED
    store.save_task(task)
    assert poller(recorder.api).poll_once() == 0
    run_claude(recorder.api)
    assert "get_lost_steps" not in recorder.names()
    assert run_of(store, run).state == RunnerState.RUNNING
    runner(recorder.api).run_once()
    assert "get_lost_steps" in recorder.names()
    assert run_of(store, run).outputs == {"m": 1}


def test_a_runner_finds_a_step_that_asks_for_its_transition(store: MemoryStore, recorder: Recorder) -> None:
    run = begin(store)
    step = store.get_step(StepId(only_task(store, run).step_id))
    assert step is not None
    step.set_attribute("m", 1, is_return=True)
    step.request_state_change(True)
    store.save_step(step)
    runner(recorder.api).run_once()
    assert run_of(store, run).outputs == {"m": 1}
    assert only_task(store, run).state == TaskState.COMPLETED


def test_distributed_locking(store: MemoryStore) -> None:
    locks: list[bool] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        tasks = [
            task for task in store.get_all_tasks() if task.state in (TaskState.PENDING, TaskState.RUNNING)
        ]
        locks.append(store.check_lock(f"runner:task:{tasks[0].uuid}") is not None)
        return double(payload)

    begin(store)
    assert poller(store, work).poll_once() == 1
    begin(store)
    assert runner(store, work).run_once() == 1
    assert run_claude(store, work).success
    assert locks == [False, True, False]


def test_http_status_server(store: MemoryStore) -> None:
    seen = Recorder(store)
    service = runner(seen.api)
    with serving(service, seen):
        assert service.http_port is not None
    for kind in (AgentPoller, ClaudeAgentRunner):
        assert "http_port" not in dir(kind)
    assert not [field for field in inspect.signature(AgentPollerConfig).parameters if "http" in field]


def test_server_registration(store: MemoryStore) -> None:
    for kind in ("poller", "runner"):
        seen, _ = served(store, kind)
        assert seen.states() == ["startup", "running", "shutdown"]
    servers = store.get_all_servers()
    assert {server.service_name for server in servers} == {"afl-agent", "afl-runner"}
    assert run_claude(store).success
    assert store.get_all_servers() == servers


def test_heartbeat(store: MemoryStore) -> None:
    for service_of in (poller, runner):
        seen = Recorder(store)
        service: Any = service_of(seen.api)
        with serving(service, seen):
            seen.until(lambda r: [s.state for s in r.servers].count("running") >= 3)
        assert ("save_server", "afl-heartbeat") in seen.calls
    seen = Recorder(store)
    started = newcomers()
    assert run_claude(seen.api, lambda payload: {"m": len(started())}).outputs == {"m": 0}
    assert "save_server" not in seen.names()


def test_handler_model(store: MemoryStore) -> None:
    assert list(inspect.signature(AgentPoller.register).parameters) == ["self", "facet_name", "callback"]
    assert "tool_registry" in inspect.signature(RunnerService).parameters
    assert {"tool_registry", "anthropic_client"} <= set(inspect.signature(ClaudeAgentRunner).parameters)
    runs = [begin(store)]
    assert poller(store).poll_once() == 1
    runs.append(begin(store))
    assert runner(store).run_once() == 1
    assert [run_of(store, run).outputs for run in runs] == [{"m": 6}] * 2
    assert run_claude(store).outputs == {"m": 6}


def test_concurrency(store: MemoryStore) -> None:
    here = threading.current_thread().name
    for make, expected in ((poller, here), (runner, here)):
        threads: list[str] = []

        def note(payload: dict[str, Any], threads: list[str] = threads) -> dict[str, Any]:
            threads.append(threading.current_thread().name)
            return double(payload)

        begin(store, "ns.Many", {"list": [1, 2, 3]})
        service: Any = make(store, note)
        assert (service.poll_once if isinstance(service, AgentPoller) else service.run_once)() == 3
        assert threads == [expected] * 3
    seen, gate = Recorder(store), Gate()
    run = begin(store, "ns.Many", {"list": [1, 2, 3]})
    with serving(runner(seen.api, gate), seen):
        gate.called(3)  # all at once, in a pool of threads
        gate.open()
        ended(store, run)
    assert len(set(gate.threads)) == 3
    alone: list[str] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        alone.append(threading.current_thread().name)
        return double(payload)

    run_claude(store, work)
    assert alone == [here]


def test_signal_handling(store: MemoryStore) -> None:
    usual = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def changed() -> bool:
        return (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) != usual

    found: list[bool] = []

    def look(payload: dict[str, Any]) -> dict[str, Any]:
        found.append(changed())
        return double(payload)

    def look_and_signal(payload: dict[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return look(payload)

    def look_and_stop(payload: dict[str, Any]) -> dict[str, Any]:
        agent.stop()
        return look(payload)

    run = submit(store)
    runner(store, look_and_signal).start()  # on the main thread, as a service is; the signal ends it
    assert found == [True]
    assert run_of(store, run).outputs == {"m": 6}
    agent = poller(store, look_and_stop)
    begin(store)
    agent.start()
    run_claude(store, look)
    assert found == [True, False, False]
    assert not changed()


def test_non_event_tasks(store: MemoryStore) -> None:
    store.save_task(TaskDefinition("t", "afl:execute", "", "", "", "", data={"flow_id": "f"}))
    assert poller(store).poll_once() == 0
    assert run_claude(store).success
    assert [task.state for task in store.get_all_tasks() if task.uuid == "t"] == [TaskState.PENDING]
    assert runner(store).run_once() == 1
    task = store.get_task("t")
    assert task is not None
    assert task.error == {"message": "Flow 'f' not found", "type": "InputError"}


def test_ast_caching(store: MemoryStore) -> None:
    for make in (poller, runner):
        run = begin(store)
        seen = Recorder(store)
        service: Any = make(seen.api)
        service.cache_workflow_ast(run, dict(program().workflow.ast))
        looked = seen.count("get_program")
        assert (service.poll_once if isinstance(service, AgentPoller) else service.run_once)() == 1
        assert seen.count("get_program") == looked
        assert run_of(store, run).outputs == {"m": 6}
    seen = Recorder(store)
    assert run_claude(seen.api).success
    assert seen.count("get_program") == 0


@pytest.mark.parametrize("name", ["Double", "ns.Double"])
def test_short_name_fallback(store: MemoryStore, name: str) -> None:
    begin(store)
    assert poller(store, name=name).poll_once() == 1
    begin(store)
    assert runner(store, name=name).run_once() == 1
    assert run_claude(store, name=name).outputs == {"m": 6}


def test_error_to_fail_step(store: MemoryStore) -> None:
    def broken(payload: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("broken")

    runs = [begin(store)]
    poller(store, broken).poll_once()
    runs.append(begin(store))
    runner(store, broken).run_once()
    result = run_claude(store, broken)
    assert not result.success
    runs.append(result.workflow_id)
    for run in runs:
        task = only_task(store, run)
        assert (task.state, (task.error or {}).get("message")) == (TaskState.FAILED, "broken")
        step = store.get_step(StepId(task.step_id))
        assert step is not None
        assert step.state == StepState.STATEMENT_ERROR
        assert run_of(store, run).state == RunnerState.FAILED


def test_intended_use(store: MemoryStore) -> None:
    """A poller serves runs that others evaluate, a runner does all of it, a model's runner drives its own run."""
    waiting = submit(store, source=DOUBLE)
    assert poller(store).poll_once() == 0
    assert runner(store).run_once() == 1
    assert run_of(store, waiting).outputs == {"m": 6}
    mine = run_claude(store)
    assert (mine.success, mine.outputs) == (True, {"m": 6})
