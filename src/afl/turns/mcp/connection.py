"""One session with an MCP server: opened when it is needed, opened again after the server died."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult
from mcp_types import Tool as McpToolDefinition

from afl.kernel.backoff import Backoff
from afl.kernel.errors import InputError
from afl.turns.mcp.server import McpServer
from afl.turns.tools.outcome import ToolFailure

TOOLS_SECONDS = 60.0  # how long a list of tools is used, or its lack, before the server is asked again
MOST_PAGES = 20
_ATTEMPTS = 3
_BACKOFF = Backoff(0.1, cap=10.0)
_CLOSE_SECONDS = 6.0  # the library gives a process two seconds each to end by itself, and after a signal
_log = logging.getLogger("afl.turns")

Opener = Callable[[], AbstractAsyncContextManager[Client]]


class McpUnavailable(ToolFailure):
    """There is no session with the server, so nothing was sent to it."""

    def __init__(self, text: str) -> None:
        super().__init__("mcp_unavailable", text)


class McpConnection:
    """For one event loop. `open_client` opens a session; it is entered and left by a task of the connection's own."""

    def __init__(self, server: McpServer, open_client: Opener) -> None:
        self.server = server
        self._open = open_client
        self._lock = asyncio.Lock()
        self._session: _Session | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._retry_at = 0.0
        self._tools: Sequence[McpToolDefinition] = ()
        self._tools_until = 0.0
        self._silent_until = 0.0

    async def tools(self) -> Sequence[McpToolDefinition]:
        """What the server offers now; McpUnavailable if it cannot be asked."""
        if time.monotonic() < self._tools_until and self._session is not None and self._session.is_open:
            return self._tools
        began = time.monotonic()
        if began < self._silent_until:
            raise McpUnavailable(
                f"MCP server {self.server.name} is not asked again yet: {self.server.too_late}"
            )
        try:
            self._tools = await self._listed(again=self._session is not None)
        except McpUnavailable:
            waited = time.monotonic() - began
            if waited >= self.server.connect_timeout:  # the next turns need not wait as long
                self._silent_until = time.monotonic() + TOOLS_SECONDS
            raise
        self._tools_until = time.monotonic() + TOOLS_SECONDS
        return self._tools

    async def _listed(self, *, again: bool) -> Sequence[McpToolDefinition]:
        """`again`: once more in a new session, if this one turns out to have ended since it was used."""
        client = await self._client()
        try:
            async with asyncio.timeout(self.server.connect_timeout):
                return await _all_tools(client)
        except (MCPError, TimeoutError, ValueError) as error:
            self._lose(client)
            if again and isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
                return await self._listed(again=False)
            why = self.server.too_late if isinstance(error, TimeoutError) else _cause(error)
            raise McpUnavailable(f"MCP server {self.server.name} does not list its tools: {why}") from error

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, meta: Mapping[str, Any], repeatable: bool
    ) -> CallToolResult:
        """The result of a call. If the server dies on it, it is made again only if that is harmless."""
        attempts = 0
        while True:
            client = await self._client() if repeatable else await self._live_client()
            attempts += 1
            try:
                return await client.call_tool(tool, dict(arguments), meta=dict(meta))  # type: ignore[arg-type]
            except MCPError as error:
                if error.code != CONNECTION_CLOSED:
                    raise ToolFailure("mcp_error", str(error)) from error
                self._lose(client)
                if repeatable and attempts < _ATTEMPTS:
                    continue
                raise ToolFailure("mcp_connection_lost", self._lost(tool, repeatable)) from error

    async def _live_client(self) -> Client:
        """A session that answers: a server that died since the last call is not noticed before it is asked."""
        client = await self._client()
        try:
            await client.list_tools()
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                raise ToolFailure("mcp_error", str(error)) from error
            self._lose(client)
            return await self._client()
        return client

    async def close(self) -> None:
        if self._session is not None:
            self._lose(self._session.client)
        await asyncio.gather(*self._ending)

    def _lost(self, tool: str, repeatable: bool) -> str:
        told = f"the MCP server {self.server.name} went away during the call of {tool}"
        return (
            told if repeatable else f"{told}; whether it had its effect is not known, so it was not repeated"
        )

    async def _client(self) -> Client:
        async with self._lock:
            if self._session is not None and self._session.is_open:
                return self._session.client
            if time.monotonic() < self._retry_at:
                raise McpUnavailable(f"MCP server {self.server.name} could not be reached a moment ago")
            session = _Session(self._open, self.server)
            try:
                await session.start()
            except McpUnavailable:
                self._failures += 1
                self._retry_at = time.monotonic() + _BACKOFF.delay(self._failures)
                raise
            self._session, self._failures, self._tools_until = session, 0, 0.0
            return session.client

    def _lose(self, client: Client) -> None:
        """Give up a session that failed, unless another call has done so. Nobody waits until it has ended."""
        if self._session is not None and self._session.client is client:
            ending = asyncio.create_task(self._session.close())
            self._session = None
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


class _Session:
    """A task that enters a session, and leaves it when it is told to."""

    def __init__(self, open_client: Opener, server: McpServer) -> None:
        self._open = open_client
        self._server = server
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own())

    @property
    def is_open(self) -> bool:
        return not self._task.done() and not self._stop.is_set()

    @property
    def client(self) -> Client:
        return self._ready.result()

    async def start(self) -> None:
        """Wait until the session is open; McpUnavailable says why it is not, InputError that it must not be."""
        await asyncio.wait([self._ready], timeout=self._server.connect_timeout)
        late = not self._ready.done()
        error = None if late or self._ready.cancelled() else self._ready.exception()
        if not late and not self._ready.cancelled() and error is None:
            return
        await self.close()
        if isinstance(error, InputError):
            raise error
        why = self._server.too_late if late else _cause(error)
        raise McpUnavailable(f"MCP server {self._server.name} cannot be reached: {why}") from error

    async def close(self) -> None:
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    async def _own(self) -> None:
        try:
            async with self._open() as client:
                self._ready.set_result(client)
                await self._stop.wait()
        except Exception as error:
            _log.info("session with MCP server %s ended: %s", self._server.name, _cause(error))
            if not self._ready.done():
                self._ready.set_exception(_first(error))
        finally:
            self._ready.cancel()  # no effect if it has a result


async def _all_tools(client: Client) -> list[McpToolDefinition]:
    found: list[McpToolDefinition] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _first(error: BaseException) -> BaseException:
    """The first error of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _cause(error: BaseException | None) -> str:
    if error is None:
        return "the session ended at once"
    first = _first(error)
    return str(first) or type(first).__name__
