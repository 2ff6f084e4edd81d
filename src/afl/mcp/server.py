"""The MCP server itself: its tools, its resources, and what it says of itself."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ListResourcesResult, PaginatedRequestParams

from afl import __version__
from afl.mcp.clients import ClientProvider, RequestClient
from afl.mcp.resources import add_resources, listed
from afl.mcp.tools import all_tools

_INSTRUCTIONS = """AgentFlow runs typed workflows durably: a run survives crashes, and its steps are done by agents.
Start one with `run` (a source in AFL, or the name of a workflow that `list_workflows` shows); look at it with
`show_run`, `show_step` and `read_log`. When something does not move, `why` says for what it waits and what would help.
`validate` finds mistakes in a source before it runs. Steps that wait for a person are in `list_approvals`; answer them
only with what a person decided. Ids may be shortened to a beginning that only one thing has."""


class _Server(MCPServer[Any]):
    """Lists the resources of the store, which are others for every store and at every moment.

    What the package lists by itself are those whose address was known when the server was made.
    """

    def __init__(self, client: RequestClient, **about: Any) -> None:
        super().__init__("agentflow", **about)
        self._asker = client

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        context: Context[Any, Any] = Context(request_context=ctx, mcp_server=self)
        return ListResourcesResult(resources=await listed(context, self._asker))


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
