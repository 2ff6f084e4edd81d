"""RunnerService: everything a poller does, and evaluation, locks, tools, signals, a bounded end, jobs."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

import pytest
from support.agents import (
    DOUBLE,
    LONG,
    Deaf,
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
from support.threads import newcomers

from afl.kernel.errors import StoreUnavailable
from afl.runtime.agent import ToolRegistry
from afl.runtime.entities import LockMetaData, RunnerState, ServerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.events import step_continue
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.runner.service import RESUME_TASK_NAME, RunnerConfig, RunnerService
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import StepId, WorkflowId

Function = Any


def runner_on(
    store: PersistenceAPI, config: RunnerConfig | None = None, default: Function = None, **tools: Function
) -> RunnerService:
    registry = ToolRegistry()
    for name, tool in tools.items():
        registry.register(name, tool)
    if default is not None:
        registry.set_default_handler(default)
    return RunnerService(store, Evaluator(store), config or quiet(), registry)


def quiet(**terms: Any) -> RunnerConfig:
    """Without HTTP, and quick to poll."""
    return RunnerConfig(**{"http": False, "poll_interval_ms": 20, "heartbeat_interval_ms": 5, **terms})


# -- configuration --------------------------------------------------------------------------------------------


def test_the_defaults_of_the_configuration() -> None:
    config = RunnerConfig()
    assert (config.server_group, config.service_name, config.topics) == ("default", "afl-runner", [])
    assert (config.task_list, config.poll_interval_ms, config.heartbeat_interval_ms) == (
        "default",
        2000,
        10000,
    )
    assert (config.lock_duration_ms, config.lock_extend_interval_ms) == (60000, 20000)
    assert (config.max_concurrent, config.shutdown_timeout_ms) == (5, 30000)
    assert (config.http_port, config.http_max_port_attempts) == (8080, 20)
    assert config.server_name == socket.gethostname()
    assert RESUME_TASK_NAME == "afl:resume"


def test_configuration_and_registry_may_be_left_out(store: MemoryStore) -> None:
    service = RunnerService(store, Evaluator(store))
    assert (service.is_running, service.http_port) == (False, None)
    assert service.server_id
    assert service.run_once() == 0


def test_the_constructor_puts_afl_execute_into_the_registry(store: MemoryStore) -> None:
    registry = ToolRegistry()
    RunnerService(store, Evaluator(store), quiet(), registry)
    assert registry.names == ["afl:execute"]
    with pytest.raises(RuntimeError, match="it is not a facet"):
        registry.handle("afl:execute", {})


# -- one cycle ------------------------------------------------------------------------------------------------


def test_run_once_begins_works_and_ends_a_submitted_run(store: MemoryStore) -> None:
    run = submit(store, "ns.Twice")
    assert runner_on(store, Double=double).run_once() == 2
    assert run_of(store, run).outputs == {"m": 12}


def test_run_once_stays_on_this_thread(store: MemoryStore) -> None:
    run, started, seen = submit(store), newcomers(), []

    def tool(payload: dict[str, Any]) -> dict[str, Any]:
        seen.append((threading.current_thread() is threading.main_thread(), started()))
        return double(payload)

    assert runner_on(store, Double=tool).run_once() == 1
    assert seen == [(True, [])]
    assert run_of(store, run).state == RunnerState.COMPLETED
    assert store.get_all_servers() == []


def test_run_once_takes_at_most_max_concurrent(store: MemoryStore) -> None:
    run = submit(store, "ns.Many", {"list": list(range(5))})
    service = runner_on(store, quiet(max_concurrent=2), Double=double)
    assert [service.run_once() for _ in range(4)] == [2, 2, 1, 0]
    assert run_of(store, run).outputs == {"all": [0, 2, 4, 6, 8]}


def test_run_once_helps_steps_on_that_nobody_else_will(store: MemoryStore) -> None:
    """Step polling: the result is stored, and the word that it is was lost."""
    run = begin(store)
    step = store.get_step(StepId(only_task(store, run).step_id))
    assert step is not None
    task = only_task(store, run)
    step.set_attribute("m", 50, is_return=True)
    store.save_step(step)
    task.state = TaskState.COMPLETED
    store.save_task(task)
    service = runner_on(store)
    assert service.run_once() == 0
    assert run_of(store, run).outputs == {"m": 50}


def test_run_once_goes_on_with_runs_that_have_marks(store: MemoryStore) -> None:
    run = begin(store)
    Evaluator(store).continue_step(StepId(only_task(store, run).step_id), {"m": 8})
    runner_on(store).run_once()
    assert run_of(store, run).outputs == {"m": 8}


# -- what it serves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ns.Double", "Double"])
def test_tools_serve_by_full_and_short_name(store: MemoryStore, name: str) -> None:
    run = submit(store)
    assert runner_on(store, None, None, **{name: double}).run_once() == 1
    assert run_of(store, run).outputs == {"m": 6}


def test_without_a_tool_the_task_is_left_to_others(store: MemoryStore) -> None:
    run = submit(store)
    assert runner_on(store, None, None, **{"other.Double": double}).run_once() == 0
    assert only_task(store, run).state == TaskState.PENDING


def test_a_default_tool_serves_whatever_event_there_is(store: MemoryStore) -> None:
    run, asked = submit(store), []

    def default(facet: str, payload: dict[str, Any]) -> dict[str, Any]:
        asked.append(facet)
        return double(payload)

    assert runner_on(store, default=default).run_once() == 1
    assert asked == ["ns.Double"]
    assert run_of(store, run).outputs == {"m": 6}


def test_a_default_tool_takes_no_tasks_of_the_system(store: MemoryStore) -> None:
    store.save_task(TaskDefinition("t1", "afl:unheard", "", "", "", ""))
    assert runner_on(store, default=lambda facet, payload: {}).run_once() == 0
    assert {task.state for task in store.get_all_tasks()} == {TaskState.PENDING}


def test_a_default_tool_takes_a_task_without_a_step(store: MemoryStore) -> None:
    store.save_task(TaskDefinition("t1", "mail.Send", "", "", "", "", data={"to": "ann"}))
    assert (
        runner_on(store, default=lambda facet, payload: {"done": f"{facet} {payload['to']}"}).run_once() == 1
    )
    task = store.get_task("t1")
    assert task is not None
    assert (task.state, task.result) == (TaskState.COMPLETED, {"done": "mail.Send ann"})


def test_a_task_without_a_step_is_done_by_name(store: MemoryStore) -> None:
    store.save_task(TaskDefinition("t1", "mail.Send", "", "", "", "", data={"to": "ann"}))
    store.save_task(TaskDefinition("t2", "mail.Fail", "", "", "", ""))

    def fail(payload: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no such address")

    service = runner_on(store, Send=lambda payload: {"sent": payload["to"]}, Fail=fail)
    assert service.run_once() == 2
    first, second = store.get_task("t1"), store.get_task("t2")
    assert first is not None
    assert second is not None
    assert (first.state, first.result) == (TaskState.COMPLETED, {"sent": "ann"})
    assert second.state == TaskState.FAILED
    assert second.error == {"message": "no such address", "type": "ValueError"}


def test_topics_are_the_only_names_that_are_claimed(store: MemoryStore) -> None:
    run = submit(store)
    config = quiet(topics=["ns.Half"])
    assert runner_on(store, config, Double=double, default=lambda facet, payload: {"m": 0}).run_once() == 0
    assert only_task(store, run).state == TaskState.PENDING
    assert runner_on(store, quiet(topics=["ns.Double"]), Double=double).run_once() == 1


def test_a_topic_that_no_tool_serves_fails_with_a_clear_message(store: MemoryStore) -> None:
    run = submit(store)
    assert runner_on(store, quiet(topics=["ns.Double"])).run_once() == 1
    task = only_task(store, run)
    assert task.state == TaskState.FAILED
    assert task.error is not None
    assert task.error["message"] == "No handler for event task 'ns.Double'"


def test_functions_stand_beside_the_tools(store: MemoryStore) -> None:
    registry = ToolRegistry()
    registry.set_default_handler(lambda facet, payload: {"m": -1})
    functions = Handlers.of({"ns.Double": lambda n: {"m": n + 100}})
    run = submit(store)
    RunnerService(store, Evaluator(store), quiet(), registry, handlers=functions).run_once()
    assert run_of(store, run).outputs == {"m": 103}


def test_a_tool_that_raises_fails_the_step_and_the_run(store: MemoryStore) -> None:
    def broken(payload: dict[str, Any]) -> dict[str, Any]:
        raise OSError("disk full")

    run = submit(store)
    service = runner_on(store, Double=broken)
    assert service.run_once() == 1
    assert only_task(store, run).error == {"message": "disk full", "type": "OSError"}
    assert run_of(store, run).state == RunnerState.FAILED
    assert service.status()["handled"] == {"ns.Double": {"handled": 0, "not_handled": 1}}
    assert service.run_once() == 0


# -- locks ----------------------------------------------------------------------------------------------------


def test_a_work_item_is_locked_while_it_is_worked_on(store: MemoryStore) -> None:
    run, seen = submit(store), []

    def tool(payload: dict[str, Any]) -> dict[str, Any]:
        key = f"runner:task:{only_task(store, run).uuid}"
        seen.append((store.check_lock(key), store.acquire_lock(key, 1000, LockMetaData(), owner="other")))
        return double(payload)

    runner_on(store, quiet(lock_duration_ms=LONG), Double=tool).run_once()
    ((lock, taken),) = seen
    assert lock is not None
    assert lock.owner == store.owner_id
    assert LONG - 60_000 < lock.expires_at - store.now() <= LONG
    assert not taken
    assert store.check_lock(f"runner:task:{only_task(store, run).uuid}") is None


def test_a_work_item_that_somebody_else_locked_is_left_alone(store: MemoryStore) -> None:
    run = begin(store)
    key = f"runner:task:{only_task(store, run).uuid}"
    assert store.acquire_lock(key, LONG, owner="other")
    assert runner_on(store, Double=double).run_once() == 0
    assert store.release_lock(key, owner="other")
    assert runner_on(store, Double=double).run_once() == 1


def test_locks_are_extended_while_the_work_goes_on(store: MemoryStore) -> None:
    store.lease_ms = 30
    recorder, gate = Recorder(store), Gate()
    run = submit(store)
    with serving(runner_on(recorder.api, quiet(lock_duration_ms=LONG), Double=gate), recorder):
        gate.called()
        task = only_task(store, run)
        received(store, "nothing", lambda: only_task(store, run).lock_until > task.lock_until)
        assert "afl-lease-keeper" in [thread for name, thread in recorder.calls if name == "renew"]
        gate.open()
        assert ended(store, run).outputs == {"m": 6}


def test_locks_are_extended_at_the_interval_of_the_configuration(store: MemoryStore) -> None:
    """However long leases are: a lock shorter than them must not end under the work."""
    store.lease_ms = LONG
    recorder, gate = Recorder(store), Gate()
    run = submit(store)
    config = quiet(lock_duration_ms=LONG, lock_extend_interval_ms=10)
    with serving(runner_on(recorder.api, config, Double=gate), recorder):
        gate.called()
        try:
            recorder.until(lambda r: r.count("renew") >= 3)
        finally:
            gate.open()
        assert ended(store, run).outputs == {"m": 6}


# -- the service ----------------------------------------------------------------------------------------------


def test_start_registers_works_and_signs_off(store: MemoryStore) -> None:
    recorder = Recorder(store)
    config = quiet(service_name="orchestra", server_group="g", server_name="n", topics=[], max_concurrent=4)
    service = runner_on(recorder.api, config, Double=double, default=lambda facet, payload: {"m": 0})
    with serving(service, recorder):
        running = service.is_running
        server = server_of(store, service.server_id)
        assert (server.service_name, server.server_group, server.server_name) == ("orchestra", "g", "n")
        assert server.handlers == ["Double", "afl:execute", "afl:resume"]
        assert (server.capacity, server.any_event, server.manager) == (4, True, store.owner_id)
        run = submit(store, "ns.Twice")
        assert ended(store, run).outputs == {"m": 12}
    assert (running, service.is_running) == (True, False)
    assert recorder.states() == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]
    counts = server_of(store, service.server_id).handled
    assert [(count.handler, count.handled, count.not_handled) for count in counts] == [("ns.Double", 2, 0)]


def test_it_hears_of_submitted_runs_and_of_tasks(store: MemoryStore) -> None:
    recorder = Recorder(store)
    with serving(runner_on(recorder.api, quiet(poll_interval_ms=LONG), Double=double), recorder):
        assert ended(store, submit(store)).outputs == {"m": 6}
        assert ended(store, begin(store, "ns.Twice")).outputs == {"m": 12}


def test_without_a_bell_it_looks_at_the_poll_interval(store: MemoryStore) -> None:
    recorder = Deaf(store)
    with serving(runner_on(recorder.api, Double=double), recorder):
        assert ended(store, submit(store, "ns.Twice")).outputs == {"m": 12}


def test_tools_run_in_a_pool_of_threads(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    service = runner_on(recorder.api, quiet(max_concurrent=4), Double=gate)
    run = submit(store, "ns.Many", {"list": list(range(9))})
    with serving(service, recorder):
        gate.called(4)
        assert len(gate.calls) == 4
        assert service.status()["active_work_items"] >= 4
        gate.open()
        assert ended(store, run).outputs == {"all": [n * 2 for n in range(9)]}
    assert {thread.rpartition("-")[0] for thread in gate.threads} == {"afl-runner"}


def test_a_failing_store_does_not_end_the_service(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(store)
    with serving(runner_on(recorder.api, Double=double), recorder):
        recorder.fail("get_due_runs", StoreUnavailable("away"))
        recorder.until(lambda r: "away" in caplog.text)
        assert ended(store, submit(store)).outputs == {"m": 6}


def test_an_error_that_nobody_foresaw_is_stored_with_the_server(store: MemoryStore) -> None:
    recorder = Recorder(store)
    recorder.fail("get_due_runs", ZeroDivisionError("a bug"))
    service = runner_on(recorder.api, Double=double)
    with pytest.raises(ZeroDivisionError), serving(service):
        recorder.until(lambda r: "error" in r.states())
    assert server_of(store, service.server_id).error == {"message": "a bug", "type": "ZeroDivisionError"}


def test_a_run_that_cannot_be_evaluated_does_not_keep_the_others_from_it(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    broken = begin(store)
    taken = store.take_run(broken, lease_ms=LONG)
    assert taken is not None
    taken.program_hash, taken.settled, taken.owner = "no such program", False, ""
    store.commit(IterationChanges(run=taken))
    recorder = Recorder(store)
    with serving(runner_on(recorder.api, Double=double), recorder):
        assert ended(store, submit(store, "ns.Twice")).outputs == {"m": 12}


def test_the_word_of_an_agent_elsewhere_is_heard(store: MemoryStore) -> None:
    recorder = Recorder(store)
    run = begin(store)
    with serving(runner_on(recorder.api), recorder):
        step = store.get_step(StepId(only_task(store, run).step_id))
        assert step is not None
        step.set_attribute("m", 9, is_return=True)
        store.save_step(step)
        store.save_event(step_continue(step.id, WorkflowId(run)))
        assert ended(store, run).outputs == {"m": 9}


# -- its end --------------------------------------------------------------------------------------------------


def test_stop_lets_what_runs_finish(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    service = runner_on(recorder.api, Double=gate)
    run = submit(store)
    with serving(service, recorder) as thread:
        gate.called()
        service.stop()
        gate.open()
        thread.join()
    assert run_of(store, run).outputs == {"m": 6}
    assert service.abandoned == 0


def test_after_the_shutdown_timeout_work_is_given_up_fenced_and_given_back(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    service = runner_on(recorder.api, quiet(shutdown_timeout_ms=1), Double=gate)
    run = submit(store)
    with serving(service, recorder) as thread:
        gate.called()
        claimed = only_task(store, run)
        service.stop()
        thread.join()
    assert service.abandoned == 1
    task = only_task(store, run)
    assert (task.state, task.owner) == (TaskState.PENDING, "")
    assert task.epoch > claimed.epoch
    assert (task.deliveries, task.deaths) == (1, 0)
    assert run_of(store, run).owner == ""
    gate.open()
    assert runner_on(store, Double=lambda payload: {"m": 77}).run_once() == 1
    assert run_of(store, run).outputs == {"m": 77}
    assert only_task(store, run).deliveries == 2


def test_what_waits_for_a_thread_is_given_back_untouched(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    service = runner_on(recorder.api, quiet(max_concurrent=1), Double=gate)
    run = submit(store, "ns.Many", {"list": [1, 2, 3]})
    with serving(service, recorder) as thread:
        gate.called()
        recorder.until(lambda r: r.count("claim_tasks") > 0)
        service.stop()
        recorder.until(lambda r: r.count("return_tasks") > 0)
        gate.open()
        thread.join()
    tasks = store.get_tasks_by_workflow(run)
    assert sorted((task.state, task.deliveries) for task in tasks) == [
        (TaskState.COMPLETED, 1),
        (TaskState.PENDING, 0),
        (TaskState.PENDING, 0),
    ]
    assert len(gate.calls) == 1


def test_stop_from_several_threads_and_twice(store: MemoryStore) -> None:
    recorder = Recorder(store)
    service = runner_on(recorder.api)
    with serving(service, recorder) as thread:
        stoppers = [threading.Thread(target=service.stop) for _ in range(4)]
        for each in stoppers:
            each.start()
        for each in stoppers:
            each.join()
        thread.join()
    service.stop()
    assert not service.is_running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_gracefully(store: MemoryStore, number: signal.Signals) -> None:
    recorder = Recorder(store)
    run = submit(store)
    before = signal.getsignal(number)

    def tool(payload: dict[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), number)
        return double(payload)

    runner_on(
        recorder.api, quiet(max_concurrent=1), Double=tool
    ).start()  # on the main thread, as a service is
    assert run_of(store, run).outputs == {"m": 6}
    assert recorder.states()[-1] == ServerState.SHUTDOWN
    assert signal.getsignal(number) == before


def test_its_record_is_at_shutdown_while_what_runs_finishes(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    service = runner_on(recorder.api, Double=gate)
    begin(store)
    with serving(service, recorder):
        gate.called()
        service.stop()
        recorder.until(lambda r: r.states()[-1] == ServerState.SHUTDOWN)
        status = service.status()
        assert (status["state"], status["active_work_items"]) == ("shutdown", 1)
        gate.open()


def test_its_threads_end_with_it(store: MemoryStore) -> None:
    recorder = Recorder(store)
    before = set(threading.enumerate())
    with serving(runner_on(recorder.api, Double=double), recorder):
        ended(store, begin(store, "ns.Many", {"list": list(range(9))}))
    received(store, "nothing", lambda: not _threads("afl-runner") - before)
    assert set(threading.enumerate()) <= before


def _threads(name: str) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(name)}


def test_a_service_may_be_started_again(store: MemoryStore) -> None:
    recorder = Recorder(store)
    service = runner_on(recorder.api, Double=double)
    for n in (3, 4):
        with serving(service, recorder):
            assert ended(store, submit(store, inputs={"n": n})).outputs == {"m": 2 * n}


# -- the rest -------------------------------------------------------------------------------------------------


def test_a_cached_workflow_saves_a_look_into_the_store(store: MemoryStore) -> None:
    run = begin(store)
    recorder = Recorder(store)
    service = runner_on(recorder.api, Double=double)
    service.cache_workflow_ast(run, dict(program().workflow.ast))
    looked = recorder.count("get_program")
    service.run_once()
    assert recorder.count("get_program") == looked
    assert run_of(store, run).outputs == {"m": 6}


def test_old_runs_are_removed_after_the_days_of_the_configuration(store: MemoryStore) -> None:
    recorder = Recorder(store)
    with serving(runner_on(recorder.api, quiet(retention_days=3), Double=double), recorder):
        recorder.until(lambda r: r.count("delete_runs") > 0)
    kept = Recorder(store)
    with serving(runner_on(kept.api, Double=double), kept):
        kept.until(lambda r: r.count("get_lost_steps") > 0 and r.count("claim_tasks") > 3)
    assert kept.count("delete_runs") == 0


def test_runners_share_the_work_and_the_runs_of_one_store(store: MemoryStore) -> None:
    recorders = [Recorder(store), Recorder(store)]
    done: list[int] = []

    def tool(payload: dict[str, Any]) -> dict[str, Any]:
        done.append(payload["n"])
        return double(payload)

    services = [runner_on(each.api, quiet(max_concurrent=2), Double=tool) for each in recorders]
    with serving(services[0], recorders[0]), serving(services[1], recorders[1]):
        runs = [submit(store, "ns.Many", {"list": list(range(10))}) for _ in range(4)]
        for run in runs:
            assert ended(store, run).outputs == {"all": [n * 2 for n in range(10)]}
    assert len(done) == 40
    assert (
        sum(service.status()["handled"].get("ns.Double", {"handled": 0})["handled"] for service in services)
        == 40
    )


def test_telling_is_called_with_what_came_of_it(store: MemoryStore) -> None:
    told: list[tuple[str, str | None]] = []
    registry = ToolRegistry()
    registry.register("Double", lambda payload: {"m": "x"} if payload["n"] == 1 else double(payload))
    recorder = Recorder(store)
    service = RunnerService(
        recorder.api,
        Evaluator(recorder.api),
        quiet(),
        registry,
        told=lambda done, problem: told.append((done.task.name, problem)),
    )
    with serving(service, recorder):
        ended(store, submit(store, source=DOUBLE))
        ended(store, submit(store, inputs={"n": 1}))
    assert told[0] == ("ns.Double", None)
    assert told[1][1] is not None
    assert "return field 'm'" in told[1][1]
