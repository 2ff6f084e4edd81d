"""The server record of a worker: its states are really stored, its ping stays fresh, namesakes are told of."""

from __future__ import annotations

import socket

import pytest
from support.agents import LONG, Recorder, server_of

from afl.kernel.errors import InputError, StoreUnavailable
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner.registration import Registration, describe_server


def a_server(uuid: str = "s1", name: str = "n1") -> ServerDefinition:
    return describe_server(uuid, group="g", service="svc", name=name, handlers=["a.F", "G"], topics=["a.F"])


def register(recorder: Recorder, server: ServerDefinition | None = None, beat_ms: int = LONG) -> Registration:
    return Registration(recorder.api, server or a_server(), beat_ms)


def test_a_server_before_it_registers() -> None:
    server = a_server(name="")
    assert server == ServerDefinition(
        uuid="s1",
        server_group="g",
        service_name="svc",
        server_name=socket.gethostname(),
        handlers=["a.F", "G"],
        topics=["a.F"],
        state=ServerState.STARTUP,
    )


@pytest.mark.parametrize("word", ["group", "service", "name"])
@pytest.mark.parametrize("wrong", ["a\nb", "\x1b[2J", "x" * 513])
def test_a_name_that_would_break_a_list_is_refused(word: str, wrong: str) -> None:
    names = {"group": "g", "service": "svc", "name": "n1", word: wrong}
    with pytest.raises(InputError, match="no control characters"):
        describe_server("s1", handlers=[], topics=[], **names)


def test_startup_running_and_shutdown_are_stored_one_after_the_other(store: MemoryStore) -> None:
    registration = register(Recorder(store))
    assert store.get_server("s1") is None
    registration.enter()
    entered = server_of(store, "s1")
    assert entered.state == ServerState.STARTUP
    assert entered.start_time == entered.ping_time > 0
    assert entered.manager == store.owner_id
    assert (entered.handlers, entered.topics, entered.handled) == (["a.F", "G"], ["a.F"], [])
    registration.running()
    assert server_of(store, "s1").state == ServerState.RUNNING
    registration.leave()
    left = server_of(store, "s1")
    assert (left.state, left.error) == (ServerState.SHUTDOWN, None)
    assert left.ping_time >= left.start_time == entered.start_time


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        (ValueError("no luck"), {"message": "no luck", "type": "ValueError"}),
        (KeyboardInterrupt(), {"message": "KeyboardInterrupt", "type": "KeyboardInterrupt"}),
    ],
)
def test_what_ended_the_worker_is_stored(
    store: MemoryStore, error: BaseException, stored: dict[str, str]
) -> None:
    registration = register(Recorder(store))
    registration.enter()
    registration.leave(error)
    found = server_of(store, "s1")
    assert (found.state, found.error) == (ServerState.ERROR, stored)


@pytest.mark.parametrize(
    ("error", "state"), [(None, ServerState.SHUTDOWN), (ValueError("no luck"), ServerState.ERROR)]
)
def test_a_worker_that_finishes_what_it_has_does_not_run_any_more(
    store: MemoryStore, error: BaseException | None, state: str
) -> None:
    recorder = Recorder(store)
    registration = register(recorder)
    registration.enter()
    registration.running()
    registration.stopping(error)
    recorder.until(lambda r: r.states()[-1] == state)
    registration.leave(error)
    assert recorder.states() == [ServerState.STARTUP, ServerState.RUNNING, state]


def test_that_it_is_stopping_is_stored_once_the_store_is_back(store: MemoryStore) -> None:
    recorder = Recorder(store)
    registration = register(recorder, beat_ms=1)
    registration.enter()
    registration.running()
    recorder.fail("save_server", *[StoreUnavailable("away")] * 3)
    registration.stopping()
    recorder.until(lambda r: r.states()[-1] == ServerState.SHUTDOWN)
    registration.leave()


def test_the_heartbeat_sets_the_ping_and_shows_the_counts(store: MemoryStore) -> None:
    recorder = Recorder(store)
    registration = register(recorder, beat_ms=1)
    registration.enter()
    registration.running()
    registration.handled("a.F", True)
    registration.handled("a.F", False)
    registration.handled("G", True)
    counts = [HandledCount("a.F", 1, 1), HandledCount("G", 1, 0)]
    recorder.until(lambda r: r.servers[-1].handled == counts)
    registration.leave()
    beats = recorder.count("save_server")
    assert recorder.states() == [ServerState.STARTUP, ServerState.RUNNING, ServerState.SHUTDOWN]
    assert server_of(store, "s1").handled == counts
    assert registration.counts == {count.handler: count for count in counts}
    assert recorder.count("save_server") == beats, "nothing beats after leaving"


def test_the_heartbeat_survives_errors(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(store)
    registration = register(recorder, beat_ms=1)
    registration.enter()
    registration.running()
    recorder.fail("save_server", *[StoreUnavailable(f"away {number}") for number in range(3)])
    saved = len(recorder.servers)
    recorder.until(lambda r: len(r.servers) > saved + 1)
    registration.leave()
    assert caplog.text.count("heartbeat of server s1 failed, trying again") == 3


def test_signing_off_does_not_fail_though_the_store_does(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(store)
    registration = register(recorder)
    registration.enter()
    recorder.fail("save_server", StoreUnavailable("away"))
    registration.leave()
    assert "server s1 could not sign off: away" in caplog.text


def test_a_namesake_that_lives_is_told_of_once(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        other = register(Recorder(store), a_server(f"other-{number}"))
        other.enter()
        other.running()
        other.leave()
        running = server_of(store, f"other-{number}")
        running.state = ServerState.RUNNING
        store.save_server(running)
    caplog.clear()
    register(Recorder(store)).enter()
    assert caplog.text.count("another svc named n1 runs already") == 1
    assert "give one of them another server_name" in caplog.text


def test_others_are_no_namesakes(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    dead = a_server("dead")
    dead.state, dead.manager = ServerState.RUNNING, "a process that is gone"
    ended = a_server("ended")
    ended.state, ended.manager = ServerState.SHUTDOWN, store.owner_id
    elsewhere = a_server("elsewhere", name="n2")
    elsewhere.state, elsewhere.manager = ServerState.RUNNING, store.owner_id
    for server in (dead, ended, elsewhere):
        store.save_server(server)
    registration = register(Recorder(store))
    registration.enter()
    registration.enter()  # oneself, registered before
    assert "runs already" not in caplog.text
    assert server_of(store, "s1").state == ServerState.STARTUP


def test_a_host_without_an_address_registers_too(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*args: object) -> None:
        raise OSError("name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    register(Recorder(store)).enter()
    assert server_of(store, "s1").server_ips == []
