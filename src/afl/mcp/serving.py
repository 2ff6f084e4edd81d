"""How the MCP server is reached: by standard input and output, or by streamable HTTP.

Over HTTP the loopback needs nothing, unless there is a token or there are users; any other address demands one of them.
A web page that is open on the same machine is kept out: the name in `Host` has to be one of this server's, and what a
browser sends from another site is refused.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial

import uvicorn
from anyio import run
from mcp.server.transport_security import TransportSecuritySettings

from afl.kernel.address import is_loopback, listening_socket
from afl.kernel.errors import AccessError
from afl.kernel.settings import Settings
from afl.mcp.clients import ClientProvider, ClientsAtServer, ClientsByToken, SingleClient
from afl.mcp.gate import Gate
from afl.mcp.server import make_server
from afl.operations import audit
from afl.operations.access import Caller, Role, TokenCheck, Users, check_address, load_users
from afl.operations.client import OperationsClient, StoreClient, open_client
from afl.operations.web_server import server_config

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def serve_stdio(settings: Settings) -> None:
    """Serve whoever started this process, until it closes the standard input."""
    with open_client(settings, create=True) as client:
        run(make_server(SingleClient(client)).run_stdio_async)


def serve_http(settings: Settings, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve over HTTP until somebody ends it; `ready` is told the address."""
    check_address(settings, host)
    users = load_users(settings)
    with listening_socket(host, port) as listener, open_client(settings, create=True) as client:
        app = make_server(_clients(client, settings, users)).streamable_http_app(
            streamable_http_path=PATH, host=host, transport_security=_security(settings, host)
        )
        config = server_config(Gate(app, TokenCheck(users), partial(_note, client)))
        shown = f"[{host.strip('[]')}]" if ":" in host else host
        _Server(config, lambda: ready(f"http://{shown}:{listener.getsockname()[1]}{PATH}")).run([listener])


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _clients(client: OperationsClient, settings: Settings, users: Users) -> ClientProvider:
    if not users:
        return SingleClient(client)
    if isinstance(client, StoreClient):
        return ClientsByToken(client.store, settings, users)
    return ClientsAtServer(settings.server)


def _note(client: OperationsClient, address: str, error: AccessError) -> None:
    """What was refused is in the audit log of the store; another server has its own."""
    if isinstance(client, StoreClient):
        stranger = Caller("anonymous", Role.VIEWER, f"mcp, {address}")
        audit.note(client.store, stranger, "mcp", "", audit.REFUSED, str(error))


def _security(settings: Settings, host: str) -> TransportSecuritySettings:
    """By which names the server may be called, and from which sites a browser may call it."""
    named = [each.strip() for each in settings.dashboard_hosts.split(",") if each.strip()]
    own = [] if is_loopback(host) else [f"[{host}]" if ":" in host else host]
    if not named and not is_loopback(host):
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the token is what counts
    names = [*_LOOPBACK, *own, *named]
    hosts = [each for name in names for each in (name, f"{name}:*")]
    return TransportSecuritySettings(
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{each}" for each in hosts for scheme in ("http", "https")],
    )
