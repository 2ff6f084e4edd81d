"""The sessions of one worker with MCP servers, and the tools that they give to a turn."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from afl.kernel.errors import MissingExtraError, pip_install
from afl.turns.mcp.server import McpServers
from afl.turns.tools.local import LocalTool
from afl.turns.tools.tool_names import BUILT_IN
from afl.turns.worker.toolkit import Toolkit

try:
    from afl.turns.mcp.connection import McpConnection, McpUnavailable
    from afl.turns.mcp.tools import local_tools, names_of
    from afl.turns.mcp.transport import opened
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types", "httpx2"):
        raise
    raise MissingExtraError(
        f"mcp is required for tools of MCP servers. Install it with: {pip_install('mcp')}"
    ) from missing

_log = logging.getLogger("afl.turns")


class McpSessions:
    """At most one session with each server; for one event loop."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self._connections: dict[str, McpConnection] = {}

    async def with_tools(self, toolkit: Toolkit) -> Toolkit:
        """The tools of a turn with those of its agent's servers; its model is told which server does not answer.

        InputError if a server is not known, or must not be asked.
        """
        names = toolkit.profile.mcp
        connections = [self._connection(name) for name in names]
        lists = await asyncio.gather(*(each.tools() for each in connections), return_exceptions=True)
        reserved = {*names_of(list(toolkit.toolbox)), *toolkit.rows, *BUILT_IN}
        made: list[LocalTool] = []
        missing: list[str] = []
        for connection, found in zip(connections, lists, strict=True):
            if isinstance(found, McpUnavailable):
                _log.warning("%s", found)
                missing.append(connection.server.name)
            elif isinstance(found, BaseException):
                raise found
            else:
                made += local_tools(connection, found, {*reserved, *names_of(made)})
        return _extended(toolkit, made, missing)

    async def close(self) -> None:
        connections, self._connections = self._connections, {}
        await asyncio.gather(*(each.close() for each in connections.values()))

    def _connection(self, name: str) -> McpConnection:
        if name in self._connections:
            return self._connections[name]
        server = self._servers.find(name)
        opener = partial(opened, server, allow_private=self._servers.allows_private)
        self._connections[name] = McpConnection(server, opener)
        return self._connections[name]


def _extended(toolkit: Toolkit, made: list[LocalTool], missing: list[str]) -> Toolkit:
    profile = toolkit.profile
    allowed = None if profile.allowed_tools is None else profile.allowed_tools | names_of(made)
    note = f"The tools of {', '.join(missing)} are not available now." if missing else ""
    prompt = "\n\n".join(part for part in (profile.system_prompt, note) if part)
    return replace(
        toolkit,
        profile=replace(profile, allowed_tools=allowed, system_prompt=prompt),
        toolbox=toolkit.toolbox.with_tools(made),
    )
