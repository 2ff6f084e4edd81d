"""AgentPoller: registers callbacks, polls once or for as long as it is let, and signs on and off."""

from __future__ import annotations

import logging
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
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import NoteType, RunnerState, ServerState, TaskState, params_of
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import EventState, StepState
from afl.runtime.types import EventId, StepId

QUICK = AgentPollerConfig(poll_interval_ms=20, heartbeat_interval_ms=5)


def poller_on(
    store: PersistenceAPI, config: AgentPollerConfig | None = None, **callbacks: Any
) -> AgentPoller:
    poller = AgentPoller(store, Evaluator(store), config)
    for name, callback in callbacks.items():
        poller.register(name, callback)
    return poller


# -- configuration and registration ---------------------------------------------------------------------------


def test_the_defaults_of_the_configuration() -> None:
    config = AgentPollerConfig()
    assert (config.service_name, config.server_group, config.task_list) == ("afl-agent", "default", "default")
    assert (config.poll_interval_ms, config.max_concurrent, config.heartbeat_interval_ms) == (2000, 5, 10000)
    assert config.server_name == socket.gethostname()
    assert AgentPollerConfig(server_name="mine").server_name == "mine"


def test_a_poller_needs_a_store_and_an_evaluator(store: MemoryStore) -> None:
    poller = AgentPoller(store, Evaluator(store))
    assert poller.registered_names() == []
    assert not poller.is_running


def test_every_poller_has_an_id_of_its_own(store: MemoryStore) -> None:
    assert poller_on(store).server_id
    assert poller_on(store).server_id != poller_on(store).server_id


def test_registered_names_and_the_last_registration(store: MemoryStore) -> None:
    poller = poller_on(store, Double=lambda payload: {"m": 0})
    poller.register("ns.Other", double)
    poller.register("Double", double)
    assert poller.registered_names() == ["Double", "ns.Other"]
    run = begin(store)
    assert poller.poll_once() == 1
    assert run_of(store, run).outputs == {"m": 6}


# -- one poll -------------------------------------------------------------------------------------------------


def test_poll_once_does_the_work_and_goes_on_with_the_run(store: MemoryStore) -> None:
    run = begin(store)
    poller = poller_on(store, Double=double)
    assert poller.poll_once() == 1
    assert run_of(store, run).state == RunnerState.COMPLETED
    assert run_of(store, run).outputs == {"m": 6}
    task = only_task(store, run)
    assert (task.state, task.result, task.error) == (TaskState.COMPLETED, {"m": 6}, None)
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert event.state == EventState.COMPLETED
    assert poller.poll_once() == 0


@pytest.mark.parametrize("captures", [True, False])
def test_logging_of_callbacks_is_captured_only_if_asked_for(store: MemoryStore, captures: bool) -> None:
    def work(payload: dict[str, Any]) -> dict[str, Any]:
        logging.getLogger("their").warning("as the callback says")
        return double(payload)

    run, before = begin(store), logging.getLogger().handlers[:]
    assert poller_on(store, AgentPollerConfig(capture_logging=captures), Double=work).poll_once() == 1
    lines = [(line.note_type, line.message, line.attempt) for line in store.get_logs_by_runner(run)]
    assert lines == ([(NoteType.WARNING, "as the callback says", 1)] if captures else [])
    assert logging.getLogger().handlers == before


def test_the_callback_gets_the_payload_and_its_answer_becomes_returns(store: MemoryStore) -> None:
    run, seen = begin(store), []

    def callback(payload: dict[str, Any]) -> dict[str, Any]:
        seen.append(payload)
        return {"m": 7}

    poller_on(store, Double=callback).poll_once()
    about = {"name": "ns.Double", "params": {"n": "Long"}, "returns": {"m": "Long"}}
    assert seen == [{"n": 3, "_facet": about}]
    assert only_task(store, run).data == seen[0]
    step = store.get_step(StepId(only_task(store, run).step_id))
    assert step is not None
    assert step.attributes.get_return("m") == 7
    assert step.attributes.get_param("m") is None
    assert step.state == StepState.STATEMENT_COMPLETE


def test_a_callback_cannot_change_what_is_stored(store: MemoryStore) -> None:
    run = begin(store)

    def spoil(payload: dict[str, Any]) -> dict[str, Any]:
        return {"m": payload.pop("n")}

    poller_on(store, Double=spoil).poll_once()
    assert only_task(store, run).params == {"n": 3}


def test_a_parameter_may_have_the_name_of_the_metadata() -> None:
    about = {"name": "F", "params": {"_facet": "String"}, "returns": {}}
    assert params_of({"_facet": about, "n": 1}) == {"n": 1}
    assert params_of({"_facet": "red", "n": 1}) == {"_facet": "red", "n": 1}


@pytest.mark.parametrize("name", ["ns.Double", "Double"])
def test_a_callback_serves_by_its_full_or_its_short_name(store: MemoryStore, name: str) -> None:
    begin(store)
    assert poller_on(store, None, **{name: double}).poll_once() == 1


@pytest.mark.parametrize("name", ["other.Double", "Doubl", "ns.Other"])
def test_what_nobody_here_serves_is_left_to_others(store: MemoryStore, name: str) -> None:
    run = begin(store)
    poller = poller_on(store, None, **{name: double})
    assert poller.poll_once() == 0
    assert only_task(store, run).state == TaskState.PENDING
    assert poller_on(store).poll_once() == 0


def test_the_full_name_is_tried_before_the_short_one(store: MemoryStore) -> None:
    run = begin(store)
    short = {"Double": lambda payload: {"m": -1}}
    assert poller_on(store, None, **short, **{"ns.Double": double}).poll_once() == 1
    assert run_of(store, run).outputs == {"m": 6}


def test_poll_once_goes_on_with_what_the_run_asks_for_next(store: MemoryStore) -> None:
    run = begin(store, "ns.Twice")
    assert poller_on(store, Double=double).poll_once() == 2
    assert run_of(store, run).outputs == {"m": 12}


def test_poll_once_takes_at_most_max_concurrent(store: MemoryStore) -> None:
    run = begin(store, "ns.Many", {"list": list(range(7))})
    poller = poller_on(store, AgentPollerConfig(max_concurrent=3), Double=double)
    assert [poller.poll_once() for _ in range(4)] == [3, 3, 1, 0]
    assert run_of(store, run).outputs == {"all": [0, 2, 4, 6, 8, 10, 12]}


def test_poll_once_polls_its_own_list_only(store: MemoryStore) -> None:
    run = begin(store, task_list="special")
    assert poller_on(store, Double=double).poll_once() == 0
    assert poller_on(store, AgentPollerConfig(task_list="special"), Double=double).poll_once() == 1
    assert run_of(store, run).outputs == {"m": 6}


def test_poll_once_starts_no_threads_and_registers_nothing(store: MemoryStore) -> None:
    begin(store, "ns.Twice")
    recorder, threads, here = Recorder(store), [], threading.get_ident()
    started = newcomers()

    def callback(payload: dict[str, Any]) -> dict[str, Any]:
        assert threading.get_ident() == here
        threads.append(started())
        return double(payload)

    assert poller_on(recorder.api, Double=callback).poll_once() == 2
    assert threads == [[], []]
    assert started() == []
    assert store.get_all_servers() == []


def test_poll_once_holds_its_task_for_a_minute_without_renewal(store: MemoryStore) -> None:
    run, left = begin(store), []

    def callback(payload: dict[str, Any]) -> dict[str, Any]:
        left.append(only_task(store, run).lease_until - store.now())
        assert store.reclaim() == 0
        return double(payload)

    poller_on(store, Double=callback).poll_once()
    assert 30_000 < left[0] <= 60_000


def test_a_poller_takes_no_work_item_locks(store: MemoryStore) -> None:
    run, locks = begin(store), []

    def callback(payload: dict[str, Any]) -> dict[str, Any]:
        locks.append(store.check_lock(f"runner:task:{only_task(store, run).uuid}"))
        return double(payload)

    recorder = Recorder(store)
    poller_on(recorder.api, Double=callback).poll_once()
    assert locks == [None]
    assert not [name for name in recorder.names() if name.endswith("_lock")]


def test_an_answer_of_none_means_no_values(store: MemoryStore) -> None:
    run = begin(
        store,
        "Tell",
        {"n": 1},
        "event facet Note(n: Long)\nworkflow Tell(n: Long) andThen { a = Note($.n) }",
    )
    nothing: Any = lambda payload: None  # noqa: E731  a callback that returns nothing
    poller_on(store, Note=nothing).poll_once()
    assert run_of(store, run).state == RunnerState.COMPLETED


# -- failures -------------------------------------------------------------------------------------------------


def refuse(payload: dict[str, Any]) -> dict[str, Any]:
    raise ValueError(f"{payload['n']} is refused")


def test_a_callback_that_raises_fails_step_task_and_event(store: MemoryStore) -> None:
    run = begin(store)
    assert poller_on(store, Double=refuse).poll_once() == 1
    task = only_task(store, run)
    assert task.state == TaskState.FAILED
    assert task.error == {"message": "3 is refused", "type": "ValueError"}
    step = store.get_step(StepId(task.step_id))
    assert step is not None
    assert step.state == StepState.STATEMENT_ERROR
    assert "3 is refused" in str(step.transition.error)
    event = store.get_event(EventId(task.uuid))
    assert event is not None
    assert (event.state, event.payload["error"]) == (EventState.ERROR, "3 is refused")
    assert run_of(store, run).state == RunnerState.FAILED


def test_nothing_is_retried_by_itself(store: MemoryStore) -> None:
    run, poller = begin(store), poller_on(store, Double=refuse)
    assert [poller.poll_once() for _ in range(3)] == [1, 0, 0]
    assert only_task(store, run).deliveries == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"m": "six"}, "return field 'm'"),
        ({}, "the result lacks m"),
        (None, "the result lacks m"),
        ([1], "a map of return values, got list"),
        ({"m": object()}, "plain"),
        ({"m": float("nan")}, "NaN"),
    ],
)
def test_nonsense_fails_the_step_and_says_what_was_wrong(
    store: MemoryStore, answer: Any, reason: str
) -> None:
    run = begin(store)
    assert poller_on(store, Double=lambda payload: answer).poll_once() == 1
    task = only_task(store, run)
    assert task.state == TaskState.FAILED
    assert task.error is not None
    assert reason.lower() in task.error["message"].lower()
    assert run_of(store, run).state == RunnerState.FAILED


def test_a_diagnostic_beside_the_result_is_dropped_with_a_warning(store: MemoryStore) -> None:
    run = begin(store)
    assert poller_on(store, Double=lambda payload: {"m": 6, "took": 2}).poll_once() == 1
    assert only_task(store, run).result == {"m": 6}
    assert run_of(store, run).state == RunnerState.COMPLETED
    (entry,) = store.get_logs_by_runner(run)
    assert entry.note_type == NoteType.WARNING
    assert entry.message.endswith("does not declare it: took")


def test_an_error_without_text_is_named(store: MemoryStore) -> None:
    def silent(payload: dict[str, Any]) -> dict[str, Any]:
        raise KeyError

    run = begin(store)
    poller_on(store, Double=silent).poll_once()
    assert only_task(store, run).error == {"message": "KeyError", "type": "KeyError"}


def test_even_what_would_end_a_thread_is_the_callbacks_failure(store: MemoryStore) -> None:
    def leave(payload: dict[str, Any]) -> dict[str, Any]:
        raise SystemExit(3)

    run = begin(store)
    assert poller_on(store, Double=leave).poll_once() == 1
    assert only_task(store, run).error == {"message": "3", "type": "SystemExit"}


def test_an_operator_retries_a_failed_step(store: MemoryStore) -> None:
    run = begin(store)
    poller_on(store, Double=refuse).poll_once()
    assert Evaluator(store).retry(run) == 1
    Evaluator(store).resume(run)
    assert poller_on(store, Double=double).poll_once() == 1
    assert run_of(store, run).outputs == {"m": 6}
    assert [task.state for task in store.get_tasks_by_workflow(run)] == [
        TaskState.FAILED,
        TaskState.COMPLETED,
    ]


def test_a_result_for_a_run_that_was_canceled_meanwhile_is_dropped(store: MemoryStore) -> None:
    run = begin(store)

    def callback(payload: dict[str, Any]) -> dict[str, Any]:
        assert store.cancel_run(run, "enough")
        return double(payload)

    assert poller_on(store, Double=callback).poll_once() == 1
    task = only_task(store, run)
    assert (task.state, task.result) == (TaskState.CANCELED, None)
    assert run_of(store, run).state == RunnerState.CANCELED


def test_a_result_for_a_step_that_went_on_is_dropped(store: MemoryStore) -> None:
    run = begin(store)

    def callback(payload: dict[str, Any]) -> dict[str, Any]:
        step = StepId(only_task(store, run).step_id)
        assert Evaluator(store).continue_step(step, {"m": 100})
        return double(payload)

    assert poller_on(store, Double=callback).poll_once() == 1
    Evaluator(store).resume(run)
    assert run_of(store, run).outputs == {"m": 100}
    assert only_task(store, run).result == {"m": 100}


# -- the program of a run -------------------------------------------------------------------------------------


def test_a_cached_workflow_saves_a_look_into_the_store(store: MemoryStore) -> None:
    run = begin(store)
    recorder = Recorder(store)
    poller = poller_on(recorder.api, Double=double)
    poller.cache_workflow_ast(run, dict(program().workflow.ast))
    looked = recorder.count("get_program")
    poller.poll_once()
    assert recorder.count("get_program") == looked
    assert run_of(store, run).outputs == {"m": 6}


def test_another_workflow_in_the_cache_changes_nothing_and_is_told(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    run = begin(store)
    poller = poller_on(store, Double=double)
    poller.cache_workflow_ast(run, dict(program("ns.Twice").workflow.ast))
    assert "continues with the program it was started with" in caplog.text
    poller.poll_once()
    assert run_of(store, run).outputs == {"m": 6}


def test_a_cached_workflow_of_a_run_that_is_not_there_is_no_error(store: MemoryStore) -> None:
    poller = poller_on(store, Double=double)
    poller.cache_workflow_ast("nobody", dict(program().workflow.ast))
    assert poller.poll_once() == 0


def test_threads_may_race_for_the_cache(store: MemoryStore) -> None:
    run = begin(store)
    poller = poller_on(store, Double=double)
    barrier = threading.Barrier(8)
    errors: list[BaseException] = []

    def cache() -> None:
        barrier.wait()
        try:
            poller.cache_workflow_ast(run, dict(program().workflow.ast))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=cache) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    poller.poll_once()
    assert run_of(store, run).outputs == {"m": 6}


# -- at work --------------------------------------------------------------------------------------------------


def test_start_registers_works_and_signs_off(store: MemoryStore) -> None:
    recorder = Recorder(store)
    config = AgentPollerConfig(
        service_name="mailer", server_group="north", server_name="n1", task_list="l", max_concurrent=7
    )
    poller = poller_on(recorder.api, config, Double=double)
    poller.register("ns.Other", double)
    with serving(poller, recorder):
        running = poller.is_running
        server = server_of(store, poller.server_id)
        assert server.state == ServerState.RUNNING
        assert (server.service_name, server.server_group, server.server_name) == ("mailer", "north", "n1")
        assert server.handlers == server.topics == ["Double", "ns.Other"]
        assert (server.task_list, server.capacity, server.manager) == ("l", 7, store.owner_id)
        assert server.start_time > 0
    assert (running, poller.is_running) == (True, False)
    assert recorder.states() == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]
    assert server_of(store, poller.server_id).state == ServerState.SHUTDOWN


def test_start_blocks_until_it_is_stopped(store: MemoryStore) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK, Double=double)
    with serving(poller, recorder) as thread:
        recorder.until(lambda r: r.count("claim_tasks") >= 3)
        assert thread.is_alive()
        assert poller.is_running
        poller.stop()
        thread.join()
    assert not poller.is_running


def test_start_does_what_comes_and_goes_on_with_the_runs(store: MemoryStore) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, AgentPollerConfig(poll_interval_ms=LONG), Double=double)
    with serving(poller, recorder):
        first, second = begin(store, "ns.Twice"), begin(store, "ns.Many", {"list": [1, 2, 3]})
        assert ended(store, first).outputs == {"m": 12}
        assert ended(store, second).outputs == {"all": [2, 4, 6]}


def test_without_a_bell_work_is_found_at_the_poll_interval(store: MemoryStore) -> None:
    recorder = Deaf(store)
    poller = poller_on(recorder.api, QUICK, Double=double)
    with serving(poller, recorder):
        assert ended(store, begin(store, "ns.Twice")).outputs == {"m": 12}


def test_callbacks_run_at_the_same_time_up_to_max_concurrent(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    poller = poller_on(recorder.api, AgentPollerConfig(max_concurrent=3), Double=gate)
    run = begin(store, "ns.Many", {"list": list(range(8))})
    with serving(poller, recorder):
        gate.called(3)
        assert len(gate.calls) == 3
        assert len(set(gate.threads)) == 3
        gate.open()
        assert ended(store, run).outputs == {"all": [n * 2 for n in range(8)]}
    assert len(gate.calls) == 8
    assert {thread.rpartition("-")[0] for thread in gate.threads} == {"afl-agent"}


def test_a_failure_does_not_end_the_poller(store: MemoryStore) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK, Double=lambda p: refuse(p) if p["n"] == 3 else double(p))
    with serving(poller, recorder):
        assert ended(store, begin(store)).state == RunnerState.FAILED
        assert ended(store, begin(store, inputs={"n": 4})).outputs == {"m": 8}
        assert poller.is_running


def test_the_heartbeat_shows_the_ping_and_what_was_handled(store: MemoryStore) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK, Double=lambda p: refuse(p) if p["n"] == 3 else double(p))
    with serving(poller, recorder):
        for n in (3, 4, 5):
            ended(store, begin(store, inputs={"n": n}))
        recorder.until(
            lambda r: any([(h.handled, h.not_handled) for h in s.handled] == [(2, 1)] for s in r.servers)
        )
        seen = len(recorder.servers)
        recorder.until(lambda r: len(r.servers) > seen)
    beats = [s for s in recorder.servers if s.state == ServerState.RUNNING]
    assert len(beats) > 2
    pings = [server.ping_time for server in beats]
    assert pings == sorted(pings)
    assert server_of(store, poller.server_id).handled[0].handler == "ns.Double"
    heart = [thread for name, thread in recorder.calls if name == "save_server"]
    assert "afl-heartbeat" in heart


def test_the_heartbeat_survives_errors_of_the_store(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK, Double=double)
    with serving(poller, recorder):
        recorder.fail("save_server", StoreUnavailable("gone"), StoreUnavailable("gone again"))
        saved = len(recorder.servers)
        recorder.until(lambda r: len(r.servers) >= saved + 2)
    assert "heartbeat of server" in caplog.text
    assert recorder.states()[-1] == ServerState.SHUTDOWN


def test_errors_of_the_store_do_not_end_the_poller(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK, Double=double)
    with serving(poller, recorder):
        recorder.fail("claim_tasks", StoreUnavailable("away"), StoreUnavailable("still away"))
        recorder.until(lambda r: "still away" in caplog.text)
        assert ended(store, begin(store)).outputs == {"m": 6}
    assert "the store fails, trying again" in caplog.text


def test_an_error_that_nobody_foresaw_is_stored_with_the_server(store: MemoryStore) -> None:
    recorder = Recorder(store)
    recorder.fail("claim_tasks", ZeroDivisionError("a bug"))
    poller = poller_on(recorder.api, QUICK, Double=double)
    with pytest.raises(ZeroDivisionError), serving(poller):
        recorder.until(lambda r: "error" in r.states())
    assert recorder.states() == [ServerState.STARTUP, ServerState.RUNNING, ServerState.ERROR]
    assert server_of(store, poller.server_id).error == {"message": "a bug", "type": "ZeroDivisionError"}
    assert not poller.is_running


def test_stop_lets_what_runs_finish(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    poller = poller_on(recorder.api, QUICK, Double=gate)
    run = begin(store)
    with serving(poller, recorder) as thread:
        gate.called()
        poller.stop()
        gate.open()
        thread.join()
    assert run_of(store, run).outputs == {"m": 6}
    assert len(gate.calls) == 1


def test_its_record_is_at_shutdown_while_what_runs_finishes(store: MemoryStore) -> None:
    recorder, gate = Recorder(store), Gate()
    poller = poller_on(
        recorder.api, AgentPollerConfig(poll_interval_ms=LONG, heartbeat_interval_ms=1), Double=gate
    )
    begin(store)
    with serving(poller, recorder):
        gate.called()
        poller.stop()
        recorder.until(lambda r: r.states()[-1] == ServerState.SHUTDOWN)
        saved = recorder.count("save_server")
        recorder.until(lambda r: r.count("save_server") > saved + 2)
        assert poller.is_running
        gate.open()
    assert recorder.states() == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]


def test_a_callback_may_stop_its_poller(store: MemoryStore) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK)

    def callback(payload: dict[str, Any]) -> dict[str, Any]:
        poller.stop()
        return double(payload)

    poller.register("Double", callback)
    run = begin(store)
    poller.start()
    assert run_of(store, run).outputs == {"m": 6}
    assert recorder.states()[-1] == ServerState.SHUTDOWN


def test_stop_without_start_is_nothing(store: MemoryStore) -> None:
    poller = poller_on(store)
    poller.stop()
    assert not poller.is_running
    assert store.get_all_servers() == []


def test_its_threads_end_with_it(store: MemoryStore) -> None:
    recorder = Recorder(store)
    before = set(threading.enumerate())
    with serving(poller_on(recorder.api, QUICK, Double=double), recorder):
        ended(store, begin(store, "ns.Many", {"list": list(range(9))}))
    received(store, "nothing", lambda: not _threads("afl-agent") - before)
    assert set(threading.enumerate()) <= before


def _threads(name: str) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(name)}


def test_a_poller_may_be_started_again(store: MemoryStore) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK, Double=double)
    for n in (3, 4):
        with serving(poller, recorder):
            assert ended(store, begin(store, inputs={"n": n})).outputs == {"m": 2 * n}
    assert len(store.get_all_servers()) == 1


def test_a_poller_does_not_begin_runs_that_were_submitted(store: MemoryStore) -> None:
    recorder = Recorder(store)
    poller = poller_on(recorder.api, QUICK, Double=double)
    run = submit(store, source=DOUBLE)
    with serving(poller, recorder):
        recorder.until(lambda r: r.count("claim_tasks") >= 5)
    assert run_of(store, run).state == RunnerState.CREATED
    assert store.get_tasks_by_workflow(run) == []


def test_pollers_share_the_work_of_one_store(store: MemoryStore) -> None:
    recorders = [Recorder(store) for _ in range(3)]
    counts: list[int] = []
    gate = Gate(lambda payload: counts.append(payload["n"]) or double(payload))  # type: ignore[func-returns-value]
    pollers = [poller_on(each.api, AgentPollerConfig(max_concurrent=2), Double=gate) for each in recorders]
    run = begin(store, "ns.Many", {"list": list(range(40))})
    with (
        serving(pollers[0], recorders[0]),
        serving(pollers[1], recorders[1]),
        serving(pollers[2], recorders[2]),
    ):
        gate.called(6)
        gate.open()
        assert ended(store, run).outputs == {"all": [n * 2 for n in range(40)]}
    assert sorted(counts) == list(range(40))
