"""How an MCP server is reached: its process, or HTTP that does not leave the public internet unless it may."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, JSONRPCError, jsonrpc_message_adapter

from afl.kernel.errors import InputError
from afl.kernel.public_address import is_public
from afl.turns.mcp.server import McpServer

_READ_SECONDS = 300.0  # a stream of events may be silent for long
_LARGEST_EVENT = 64 * 1024 * 1024  # bytes; a result is one event, with its files


class PrivateAddress(InputError, hint="Set AFL_MCP_PRIVATE_ADDRESSES=allow, or use a public address."):
    """An MCP server is on this machine or in its network, and that is not allowed."""


@asynccontextmanager
async def opened(server: McpServer, *, allow_private: bool) -> AsyncIterator[Client]:
    """A session with a server. It has to be left in the task that entered it."""
    if server.command:
        command, *args = server.command
        process = StdioServerParameters(
            command=command, args=args, env=server.expanded(server.env), cwd=server.cwd
        )
        async with Client(process, cache=None) as client:
            yield client
        return
    if not allow_private:
        await public_addresses(server.url)  # told before a session is begun
    async with _http(server, allow_private) as http:
        transport = streamable_http_client(server.url, http_client=http, max_sse_event_size=_LARGEST_EVENT)
        async with Client(transport, cache=None) as client:
            yield client


async def public_addresses(url: str) -> list[str]:
    """The addresses of the host of a URL; PrivateAddress if any of them is not public."""
    found = httpx2.URL(url)
    loop = asyncio.get_running_loop()
    port = found.port or (443 if found.scheme == "https" else 80)
    try:
        rows = await loop.getaddrinfo(found.host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpx2.ConnectError(f"{found.host}: {error.strerror or error}") from error
    addresses = list(dict.fromkeys(str(row[4][0]) for row in rows))
    for address in addresses:
        if not is_public(address):
            raise PrivateAddress(
                f"the MCP server {found.host} has the address {address}, which is not public; "
                "set AFL_MCP_PRIVATE_ADDRESSES=allow if the server may be in this network"
            )
    return addresses


class PublicTransport(httpx2.AsyncBaseTransport):
    """Connects to the address that was checked: the name is not resolved a second time, which may answer otherwise."""

    def __init__(self, inner: httpx2.AsyncBaseTransport | None = None) -> None:
        self._inner = inner or httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        *others, last = await public_addresses(str(request.url))
        for address in others:
            with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                return await self._send(request, address)
        return await self._send(request, last)

    async def _send(self, request: httpx2.Request, address: str) -> httpx2.Response:
        """A request of its own: the client compares the place of a redirect with the name in the first one."""
        there = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},  # whose certificate it is
        )
        return await self._inner.handle_async_request(there)

    async def aclose(self) -> None:
        await self._inner.aclose()


class HttpClient(httpx2.AsyncClient):
    """Has the library pass on what a refusal says. 404 within a session is the end of the session."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = await super().send(request, **options)
        if request.method != "POST" or response.status_code < 400:
            return response
        ended = response.status_code == 404 and MCP_SESSION_ID in request.headers
        if not ended and await _tells_why(response):
            return response
        await response.aclose()
        message = "the session ended" if ended else _in_words(response)
        error = {"code": CONNECTION_CLOSED if ended else INTERNAL_ERROR, "message": message}
        answer = {"jsonrpc": "2.0", "id": None, "error": error}
        return httpx2.Response(response.status_code, json=answer, request=request)


async def _tells_why(response: httpx2.Response) -> bool:
    """Whether its body is an error of the protocol, which the library passes on."""
    if not response.headers.get("content-type", "").lower().startswith("application/json"):
        return False
    body = await response.aread()
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(body, by_name=False), JSONRPCError)
    except ValueError:
        return False


def _in_words(response: httpx2.Response) -> str:
    reason = httpx2.codes.get_reason_phrase(response.status_code)
    return f"HTTP {response.status_code} {reason}".rstrip()


def _http(server: McpServer, allow_private: bool) -> httpx2.AsyncClient:
    timeout = httpx2.Timeout(server.connect_timeout, read=max(_READ_SECONDS, server.timeout))
    headers = server.expanded(server.headers)
    if allow_private:
        return HttpClient(headers=headers, timeout=timeout)
    # A proxy of the environment would resolve the name itself.
    return HttpClient(headers=headers, timeout=timeout, transport=PublicTransport(), trust_env=False)
