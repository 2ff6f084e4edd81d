"""The MCP server: its tools and resources, reached by standard input and output or by streamable HTTP.

Over HTTP the loopback needs nothing, unless there is a token or there are users; any other address demands one of them.
The name in `Host` has to be one of this server's, and what a browser sends from another site is refused.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from anyio import run, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult, ListResourcesResult, PaginatedRequestParams
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from afl import __version__
from afl.client.store_client import OperationsClient, StoreClient, open_client
from afl.kernel.address import is_loopback, listening_socket
from afl.kernel.errors import AccessError, Unauthenticated
from afl.kernel.settings import Settings
from afl.mcp.clients import (
    ADDRESS_HEADER,
    ClientProvider,
    ClientsAtServer,
    ClientsByToken,
    RequestClient,
    SingleClient,
    token_of,
)
from afl.mcp.resources import add_resources, listed
from afl.mcp.tools import all_tools
from afl.operations import audit
from afl.operations.access import TokenCheck, Users, check_address, load_users
from afl.operations.roles import Caller, Role
from afl.operations.web_server import server_config

_INSTRUCTIONS = """AgentFlow runs typed workflows durably: a run survives crashes, and its steps are done by agents.
Start one with `run` (a source in AFL, or the name of a workflow that `list_workflows` shows); look at it with
`show_run`, `show_step` and `read_log`. When something is stuck, `why` says for what it waits and what would help.
`validate` finds mistakes in a source before it runs. Steps that wait for a person are in `list_approvals`; answer them
only with what a person decided. Ids may be shortened to a beginning that only one thing has."""

_MOST_PROBLEMS = 20


class _Server(MCPServer[Any]):
    """Lists the resources of the store, and words the refusals of tools as the rest of AgentFlow does.

    What the package lists by itself are resources whose address was known when the server was made.
    """

    def __init__(self, client: RequestClient, **about: Any) -> None:
        super().__init__("agentflow", **about)
        self._asker = client

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:  # the package writes the name of the tool before what was said
            raise ToolError(_refusal(error)) from error.__cause__

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        context: Context[Any, Any] = Context(request_context=ctx, mcp_server=self)
        return ListResourcesResult(resources=await listed(context, self._asker))


def _refusal(error: ToolError) -> str:
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        problems = cause.errors(include_url=False, include_context=False, include_input=False)[
            :_MOST_PROBLEMS
        ]
        return "\n".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems)
    return str(cause or error)


def make_server(clients: ClientProvider) -> MCPServer[Any]:
    """A server whose requests get their clients from `clients`."""
    client = RequestClient(clients)
    server = _Server(
        client,
        title="AgentFlow",
        description="A durable runtime for agents: start, inspect and steer workflow runs.",
        instructions=_INSTRUCTIONS,
        version=__version__,
        tools=all_tools(client),
        log_level="WARNING",
    )
    add_resources(server, client)
    return server


Note = Callable[[str, AccessError], None]


class TokenMiddleware:
    """Tells those behind it from where a request comes; `note` is told what was refused, and of whom."""

    def __init__(self, app: ASGIApp, token_check: TokenCheck, note: Note) -> None:
        self._app = app
        self._token_check = token_check
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else "unknown"
        error = self._refusal(Headers(scope=scope), address)
        if error is None:
            await self._app({**scope, "headers": _with_address(scope, address)}, receive, send)
            return
        if self._token_check.worth_noting(address):
            await to_thread.run_sync(self._note, address, error)
        problem = {"code": error.code, "message": str(error), "hint": error.hint, "details": {}}
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
        await JSONResponse({"error": problem}, error.status, headers)(scope, receive, send)

    def _refusal(self, headers: Headers, address: str) -> AccessError | None:
        if not self._token_check.demands_token:
            return None
        if "authorization" not in headers:  # clients look first, and then ask their user for a token
            return Unauthenticated("a token is needed: Authorization: Bearer ...")
        try:
            self._token_check.check(token_of(headers), address)
        except AccessError as error:
            return error
        return None


def _with_address(scope: Scope, address: str) -> list[tuple[bytes, bytes]]:
    """The headers, with ours in the place of whatever the client called so."""
    name = ADDRESS_HEADER.encode()
    kept = [each for each in scope["headers"] if each[0].lower() != name]
    return [*kept, (name, address.encode())]


PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def serve_stdio(settings: Settings) -> None:
    """Serve the parent process, until it closes the standard input."""
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
        config = server_config(TokenMiddleware(app, TokenCheck(users), partial(_note, client)))
        shown = f"[{host.strip('[]')}]" if ":" in host else host
        _UvicornServer(config, lambda: ready(f"http://{shown}:{listener.getsockname()[1]}{PATH}")).run(
            [listener]
        )


class _UvicornServer(uvicorn.Server):
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
