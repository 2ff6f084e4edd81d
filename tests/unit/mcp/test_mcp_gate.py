"""The gate of MCP over HTTP: who comes in, who has to wait, and as whom they are known behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from afl.client.store_client import StoreClient
from afl.kernel.errors import AccessError, AgentFlowError, Unauthenticated
from afl.kernel.settings import load_settings
from afl.mcp import server
from afl.mcp.clients import ADDRESS_HEADER, ClientProvider, ClientsByToken
from afl.mcp.server import TokenMiddleware
from afl.operations.access import RateLimiter, TokenCheck, User, Users, hash_token, network_of
from afl.operations.roles import Role
from afl.operations.run.run_list import list_runs
from afl.runtime.memory_store import MemoryStore

ADA = Users([User("ada", Role.VIEWER, hash_token("right"))])
NOBODY = Users([])


async def headers_as_they_arrive(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse(dict(Request(scope).headers))(scope, receive, send)


def gated(users: Users, noted: list[tuple[str, str]] | None = None) -> TestClient:
    def note(address: str, error: AccessError) -> None:
        if noted is not None:
            noted.append((address, type(error).__name__))

    return TestClient(TokenMiddleware(headers_as_they_arrive, TokenCheck(users), note))


def with_token(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


def test_whoever_guesses_has_to_wait_and_is_noted() -> None:
    noted: list[tuple[str, str]] = []
    client = gated(ADA, noted)
    assert client.get("/mcp", headers=with_token("right")).status_code == 200
    guesses = [client.get("/mcp", headers=with_token(f"guess {number}")) for number in range(11)]
    assert [each.status_code for each in guesses] == [401] * 10 + [429]
    assert guesses[0].headers["WWW-Authenticate"] == "Bearer"
    assert guesses[-1].json()["error"]["code"] == "throttled"
    assert client.get("/mcp", headers=with_token("right")).status_code == 429
    assert noted == [("testclient", "Unauthenticated")] * 10


def test_a_look_without_a_token_is_no_guess() -> None:
    client = gated(ADA)
    assert {client.get("/mcp").status_code for _ in range(20)} == {401}
    assert client.get("/mcp", headers=with_token("right")).status_code == 200


@pytest.mark.parametrize("users", [ADA, NOBODY])
def test_nobody_chooses_the_address_that_is_written_down(users: Users) -> None:
    arrived = gated(users).get("/mcp", headers=with_token("right", **{ADDRESS_HEADER: "10.0.0.1"})).json()
    assert arrived[ADDRESS_HEADER] == "testclient"


def test_the_client_of_a_token() -> None:
    settings = load_settings(environ={})
    with closing(MemoryStore()) as store:
        clients = ClientsByToken(store, settings, ADA)
        client = clients.of({"authorization": "Bearer right", ADDRESS_HEADER: "10.0.0.1"})
        assert isinstance(client, StoreClient)
        caller = client.caller
        assert (caller.name, caller.role, caller.origin) == ("ada", Role.VIEWER, "mcp, 10.0.0.1")
        with pytest.raises(Unauthenticated):
            clients.of({"authorization": "Bearer wrong"})


class Asked(BaseHTTPRequestHandler):
    """Writes down with which token each request came, and refuses it."""

    def do_GET(self) -> None:
        assert isinstance(self.server, OtherServer)
        self.server.tokens.append(self.headers["Authorization"])
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


class OtherServer(HTTPServer):
    """Another server, as far as tokens are concerned."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.tokens: list[str] = []


@pytest.fixture
def other() -> Iterator[OtherServer]:
    with OtherServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Made(Exception):
    """An MCP server would begin here."""


@pytest.mark.parametrize(("users", "token"), [(ADA, "right"), (NOBODY, "ours")])
def test_another_server_is_asked_with_the_token_of_whoever_asks(
    other: OtherServer, users: Users, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With our own, everybody who may look here could do there whatever we may."""
    made: list[ClientProvider] = []

    def make(clients: ClientProvider) -> None:
        made.append(clients)
        raise Made

    monkeypatch.setattr(server, "make_server", make)
    monkeypatch.setattr(server, "load_users", lambda settings: users)
    url = f"http://127.0.0.1:{other.server_port}"
    settings = load_settings({"server": url, "token": "ours"}, environ={})
    with pytest.raises(Made):
        server.serve_http(settings, "127.0.0.1", 0, lambda url: None)
    with pytest.raises(AgentFlowError):
        made[0].of({"authorization": "Bearer right"}).call(list_runs)
    assert other.tokens == [f"Bearer {token}"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("unknown", "unknown", True),
    ],
)
def test_addresses_of_one_network_are_one_place(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same
    throttle = RateLimiter(1, 60.0, lambda: 0.0)
    assert throttle.add(one)
    assert throttle.is_full(other) is same
