"""The runner's HTTP server: what it answers, on which port, and that it is gone afterwards."""

from __future__ import annotations

import json
import logging
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from support.agents import Gate, Recorder, double, ended, serving, submit
from support.eventually import eventually

from afl.kernel import small_server
from afl.kernel.errors import SettingError
from afl.runtime.agent import ToolRegistry
from afl.runtime.entities import ServerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner.service import RunnerConfig, RunnerService
from afl.runtime.runner.status_server import StatusServer

Answer = tuple[int, str, str]


def get(port: int, path: str, method: str = "GET", host: str = "127.0.0.1") -> Answer:
    connection = HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path)
        answer: HTTPResponse = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    finally:
        connection.close()


def refused(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((host, port)) != 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@contextmanager
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def status_of(port: int) -> dict[str, Any]:
    code, kind, body = get(port, "/status")
    assert (code, kind) == (200, "application/json")
    found: dict[str, Any] = json.loads(body)
    return found


def service_on(store: MemoryStore, tool: Any = double, **terms: Any) -> tuple[RunnerService, Recorder]:
    recorder, registry = Recorder(store), ToolRegistry()
    registry.register("Double", tool)
    config = RunnerConfig(**{"http_port": 0, "server_name": "n1", "poll_interval_ms": 20, **terms})
    return RunnerService(recorder.api, Evaluator(recorder.api), config, registry), recorder


def port_of(service: RunnerService) -> int:
    assert service.http_port is not None
    return service.http_port


# -- of a service ---------------------------------------------------------------------------------------------


def test_health_status_and_metrics_of_a_service(store: MemoryStore) -> None:
    service, recorder = service_on(store, max_concurrent=4, topics=[])
    with serving(service, recorder):
        port = port_of(service)
        assert get(port, "/health") == (200, "application/json", '{"ok":true}')
        ended(store, submit(store))
        ended(store, submit(store, inputs={"n": 4}))
        found = status_of(port)
        code, kind, metrics = get(port, "/metrics")
    assert found.pop("uptime_ms") >= 0
    assert found == {
        "server_id": service.server_id,
        "state": ServerState.RUNNING,
        "running": True,
        "handled": {"ns.Double": {"handled": 2, "not_handled": 0}},
        "active_work_items": 0,
        "config": {
            "server_group": "default",
            "service_name": "afl-runner",
            "server_name": "n1",
            "topics": [],
            "max_concurrent": 4,
            "poll_interval_ms": 20,
        },
    }
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'afl_runner_tasks_total{facet="ns.Double",outcome="handled"} 2\n' in metrics
    assert "afl_runner_up 1\n" in metrics


def test_work_in_hand_is_shown(store: MemoryStore) -> None:
    gate = Gate()
    service, recorder = service_on(store, gate)
    run = submit(store)
    with serving(service, recorder):
        gate.called()
        assert status_of(port_of(service))["active_work_items"] == 1
        gate.open()
        ended(store, run)


def test_the_port_is_free_when_the_service_has_ended(store: MemoryStore) -> None:
    service, recorder = service_on(store)
    with serving(service, recorder):
        port = port_of(service)
        assert not refused(port)
    assert service.http_port is None
    assert refused(port)


def test_a_service_without_http_listens_nowhere(store: MemoryStore) -> None:
    service, recorder = service_on(store, http=False)
    with serving(service, recorder):
        assert service.http_port is None


def test_two_services_get_two_ports(store: MemoryStore) -> None:
    port = free_port()
    first, one = service_on(store, http_port=port)
    second, two = service_on(store, http_port=port)
    with serving(first, one), serving(second, two):
        assert port_of(first) != port_of(second)
        assert status_of(port_of(first))["server_id"] == first.server_id
        assert status_of(port_of(second))["server_id"] == second.server_id


def test_a_service_that_finds_no_port_ends_and_its_record_says_why(store: MemoryStore) -> None:
    with taken() as port:
        service, recorder = service_on(store, http_port=port, http_max_port_attempts=1)
        message = f"Could not bind HTTP status server on ports {port}–{port}"
        with pytest.raises(RuntimeError, match=message), serving(service):
            recorder.until(lambda r: "error" in r.states())
    assert recorder.states() == [ServerState.STARTUP, ServerState.ERROR]
    server = store.get_server(service.server_id)
    assert server is not None
    assert server.error == {"message": message, "type": "RuntimeError"}
    assert not service.is_running


# -- of a server alone ----------------------------------------------------------------------------------------

STATUS: dict[str, Any] = {
    "running": True,
    "uptime_ms": 1500,
    "active_work_items": 2,
    "handled": {'odd"\\\n.F': {"handled": 1, "not_handled": 3}},
    "config": {"max_concurrent": 5},
}


@contextmanager
def serve(status: dict[str, Any], port: int = 0, attempts: int = 1) -> Iterator[int]:
    server = StatusServer(lambda: status, port, attempts)
    try:
        yield server.port
    finally:
        server.close()


def test_a_service_that_does_not_run_is_not_healthy() -> None:
    with serve({**STATUS, "running": False}) as port:
        assert get(port, "/health") == (503, "application/json", '{"ok":false}')
        assert "afl_runner_up 0\n" in get(port, "/metrics")[2]


@pytest.mark.parametrize("path", ["/", "/healthy", "/status/", "/%00"])
def test_anything_else_is_not_found(path: str) -> None:
    with serve(STATUS) as port:
        code, kind, body = get(port, path)
    assert (code, kind, json.loads(body)) == (404, "application/json", {"error": "not found"})


def test_what_follows_a_question_mark_is_ignored() -> None:
    with serve(STATUS) as port:
        assert get(port, "/health?verbose=1")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_there_is_nothing_to_change(method: str) -> None:
    with serve(STATUS) as port:
        code, kind, body = get(port, "/status", method)
    assert (code, kind) == (501, "application/json")
    assert json.loads(body) == {"error": f"Unsupported method ('{method}')"}


def test_a_probe_may_ask_for_the_head_alone() -> None:
    with serve(STATUS) as port:
        assert get(port, "/health", "HEAD") == (200, "application/json", "")
        assert get(port, "/healthy", "HEAD")[0] == 404


@pytest.mark.parametrize("sent", [b"", b"GET /health HT"])
def test_who_asks_for_nothing_is_not_kept(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(small_server, "REQUEST_SECONDS", 0.2)
    with serve(STATUS) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as idle:
        idle.sendall(sent)
        assert idle.recv(1) == b""


def test_a_probe_that_breaks_off_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with serve(STATUS) as port:
        probe = socket.create_connection(("127.0.0.1", port))
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as load balancers do
        probe.close()
        eventually(lambda: "left before its answer" in caplog.text)
    assert capfd.readouterr().err == ""


def test_metrics_are_as_prometheus_reads_them() -> None:
    with serve(STATUS) as port:
        body = get(port, "/metrics")[2]
    lines = body.splitlines()
    sample = re.compile(r'^[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)+\})? -?[0-9.]+$')
    assert [line for line in lines if not line.startswith("#") and not sample.match(line)] == []
    assert body.endswith("\n")
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert helped == typed
    assert {re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")} == set(helped)
    assert "afl_runner_uptime_seconds 1.5" in lines
    assert "afl_runner_active_tasks 2" in lines
    assert "afl_runner_capacity 5" in lines
    assert 'afl_runner_tasks_total{facet="odd\\"\\\\\\n.F",outcome="not_handled"} 3' in lines


def test_a_used_port_leads_to_the_next_free_one() -> None:
    with taken() as first, serve(STATUS, first, attempts=50) as port:
        assert first < port < first + 50
        assert get(port, "/health")[0] == 200


def test_only_so_many_ports_are_tried() -> None:
    with taken() as port, pytest.raises(RuntimeError, match=f"ports {port}–{port}"):
        StatusServer(lambda: STATUS, port, 1)


def test_no_attempts_are_one() -> None:
    with taken() as port, pytest.raises(RuntimeError, match="Could not bind"):
        StatusServer(lambda: STATUS, port, 0)


def test_it_listens_on_loopback_only() -> None:
    with serve(STATUS) as port, socket.socket() as elsewhere:
        # The wildcard's other addresses are free: nobody listens there.
        elsewhere.bind(("127.0.0.2", port))
        assert not refused(port)


def test_it_listens_on_the_host_that_is_given() -> None:
    server = StatusServer(lambda: STATUS, 0, 1, host="127.0.0.2")
    try:
        assert get(server.port, "/health", host="127.0.0.2")[0] == 200
        assert refused(server.port)
    finally:
        server.close()
    assert refused(server.port, "127.0.0.2")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"] if has_ipv6() else ["0.0.0.0"])
def test_it_listens_on_every_address_when_told_so(host: str) -> None:
    server = StatusServer(lambda: STATUS, 0, 1, host=host)
    try:
        for address in ("127.0.0.1", "127.0.0.2") if host == "0.0.0.0" else ("::1",):
            assert get(server.port, "/health", host=address)[0] == 200
    finally:
        server.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_not_this_machines_is_named(host: str) -> None:
    with pytest.raises(SettingError, match=f"the status server cannot listen on '{host}'"):
        StatusServer(lambda: STATUS, 8080, 20, host=host)


def test_a_service_listens_on_the_host_of_its_configuration(store: MemoryStore) -> None:
    service, recorder = service_on(store, http_host="127.0.0.2")
    with serving(service, recorder):
        assert get(port_of(service), "/health", host="127.0.0.2")[0] == 200
        assert refused(port_of(service))


def test_a_server_may_be_closed_while_somebody_is_connected() -> None:
    server = StatusServer(lambda: STATUS, 0, 1)
    with socket.create_connection(("127.0.0.1", server.port)):
        server.close()
    assert refused(server.port)


def test_many_may_ask_at_once() -> None:
    with serve(STATUS) as port:
        connections = [HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(20)]
        for connection in connections:
            connection.request("GET", "/health")
        assert [connection.getresponse().read() for connection in connections] == [b'{"ok":true}'] * 20
        for connection in connections:
            connection.close()
