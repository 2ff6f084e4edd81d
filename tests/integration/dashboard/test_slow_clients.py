"""Clients that do not finish what they begin: they cost a connection for a while, and leave a line in the log."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
import requests
from support.dashboards import API, SOURCE, served, settings_for
from support.eventually import eventually

from afl.operations import web_server

SECONDS = 60.0
MANY = 200
BODY = (
    f"POST {API}/compile HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, store_url: str) -> Iterator[str]:
    """The address of a server that does not wait for long."""
    monkeypatch.setattr(web_server, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(web_server, "BODY_SECONDS", 0.3)
    with served(settings_for(store_url)) as url:
        yield url


@contextmanager
def connected(url: str, text: str) -> Iterator[socket.socket]:
    """A connection on which that was sent."""
    place = urlsplit(url)
    with socket.create_connection((str(place.hostname), int(place.port or 0)), SECONDS) as connection:
        connection.sendall(text.encode())
        yield connection


def answer_of(connection: socket.socket) -> bytes:
    """Everything up to the end, which the server makes."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    "header", ["", "G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + "a" * 9_000]
)
def test_headers_that_are_never_whole_do_not_stay_open(hasty: str, header: str) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(connected(hasty, header)) for _ in range(MANY)]
        assert {answer_of(each) for each in held} == {b""}


def test_a_second_header_has_a_limit_too(hasty: str) -> None:
    with connected(hasty, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as connection:
        while not connection.recv(65_536).endswith(b"}"):
            pass
        connection.sendall(b"GET /health HT")
        assert answer_of(connection) == b""


def test_bodies_that_are_never_whole_are_answered_and_closed(hasty: str) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(connected(hasty, BODY + '{"source": ')) for _ in range(MANY)]
        for each in held:
            head, _, body = answer_of(each).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408 ") and b'"too-slow"' in body


def test_a_request_that_is_whole_takes_as_long_as_it_takes(hasty: str) -> None:
    run = requests.post(
        f"{hasty}{API}/runs", json={"source": "event facet A()\nworkflow W() andThen { a = A() }"}
    )
    name = run.json()["run"]
    waited = requests.get(f"{hasty}{API}/runs/{name}/wait", params={"timeout": 1})
    assert waited.status_code == 200


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_one_line(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with served(settings_for(store_url)) as url:
        with connected(url, BODY + '{"source": '):
            pass
        eventually(lambda: len(caplog.records) > 0)
    assert [(each.levelname, each.exc_info) for each in caplog.records] == [("INFO", None)]
    assert "POST /api/v1/compile: the client left" in caplog.text


def test_who_does_not_wait_does_not_queue_behind_those_who_do(store_url: str) -> None:
    with served(settings_for(store_url)) as url, ExitStack() as stack:
        run = requests.post(f"{url}{API}/runs", json={"source": SOURCE}, timeout=SECONDS).json()["run"]
        poll = (
            f"GET {API}/runs/{run}/wait?timeout=30 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        )
        held = [stack.enter_context(connected(url, poll)) for _ in range(MANY)]
        answer = requests.get(f"{url}{API}/runs/{run}/logs", timeout=SECONDS)
        assert answer.json()["lines"] == []
        assert select.select(held, [], [], 0)[0] == []
        requests.post(f"{url}{API}/runs/{run}/cancel", json={}, timeout=SECONDS)
        assert all(b'"canceled"' in answer_of(each) for each in held)


def test_a_server_that_stops_says_so_to_those_who_wait(store_url: str) -> None:
    body = '{"facets": ["Ask"], "worker": "patient", "wait": 30}'
    claim = (
        f"POST {API}/work/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    with ExitStack() as stack:
        with served(settings_for(store_url)) as url:
            connection = stack.enter_context(connected(url, claim))
            servers = f"{url}{API}/servers"
            eventually(lambda: "patient" in requests.get(servers, timeout=SECONDS).text)
        head, _, told = answer_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ") and b'"server-away"' in told
