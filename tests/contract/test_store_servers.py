"""Servers: who serves tasks, and when it last said so."""

from __future__ import annotations

from store_records import RUN

from afl.runtime.entities import HandledCount, ServerDefinition, ServerState
from afl.runtime.persistence import PersistenceAPI


def a_server(uuid: str = "s", start_time: int = 1, state: str = ServerState.RUNNING) -> ServerDefinition:
    return ServerDefinition(uuid, "group", "service", "name", start_time=start_time, state=state)


def test_every_field_of_a_server_comes_back(store: PersistenceAPI) -> None:
    server = ServerDefinition(
        uuid="s",
        server_group="group",
        service_name="service",
        server_name="näme",
        server_ips=["10.0.0.1", "::1"],
        start_time=1,
        ping_time=2,
        topics=["a.F"],
        handlers=["a.F", "G"],
        handled=[HandledCount("a.F", 3, 4)],
        state=ServerState.ERROR,
        manager="manager",
        error={"message": "no\x00", "a.b": {"$x": [1]}},
    )
    store.save_server(server)
    assert store.get_server("s") == server
    store.save_server(a_server())
    assert store.get_server("s") == a_server()


def test_a_server_is_a_copy(store: PersistenceAPI) -> None:
    server = a_server()
    store.save_server(server)
    server.handlers.append("F")
    first = store.get_server("s")
    assert first is not None
    first.topics.append("T")
    assert store.get_server("s") == a_server()


def test_a_heartbeat_writes_the_ping_time_alone(store: PersistenceAPI) -> None:
    store.save_server(a_server())
    assert store.update_server_ping("s", 99)
    assert store.update_server_ping("s", 99)  # the same again is no failure
    found = store.get_server("s")
    assert found is not None
    assert (found.ping_time, found.state) == (99, ServerState.RUNNING)
    assert not store.update_server_ping("missing", 99)
    assert store.get_server("missing") is None


def test_servers_come_oldest_start_first(store: PersistenceAPI) -> None:
    for number, start in enumerate([5, 9, 1]):
        state = ServerState.SHUTDOWN if start == 9 else ServerState.RUNNING
        store.save_server(a_server(f"s{number}", start, state))
    assert [server.uuid for server in store.get_all_servers()] == ["s2", "s0", "s1"]
    assert [server.uuid for server in store.get_servers_by_state(ServerState.RUNNING)] == ["s2", "s0"]
    assert store.get_servers_by_state(ServerState.ERROR) == []


def test_every_store_keeps_the_whole_protocol(store: PersistenceAPI) -> None:
    assert isinstance(store, PersistenceAPI)
    assert store.get_run(RUN) is None
