"""Resources: runs, steps, logs, workflows, flows and approvals, as JSON that a client can attach to a conversation."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from afl.kernel.errors import AgentFlowError, NotFoundError
from afl.mcp.clients import RequestClient
from afl.mcp.toolbox import said
from afl.operations import serialization
from afl.operations.people import approvals
from afl.operations.program import flows, library
from afl.operations.run import run_list, run_log, run_view, step_view

_JSON = "application/json"


def add_resources(server: MCPServer[Any], client: RequestClient) -> None:
    """Offer all of them."""
    do = client.call

    @server.resource("afl://runs{?state,before}", title="Runs", mime_type=_JSON)
    async def runs(context: Context[Any, Any], state: str = "", before: str = "") -> str:
        """The newest runs, a page at a time."""
        return await _json(do(context, run_list.list_runs, state=state, before=before))

    @server.resource("afl://runs/{run}", title="A run", mime_type=_JSON)
    async def run(context: Context[Any, Any], run: str) -> str:
        """A run with its inputs, outputs, error and steps as a tree."""
        return await _json(do(context, run_view.show_run, run))

    @server.resource("afl://runs/{run}/log", title="The log of a run", mime_type=_JSON)
    async def log(context: Context[Any, Any], run: str) -> str:
        """What a run's agents and its workflow logged."""
        return await _json(do(context, run_log.read_page, run))

    @server.resource("afl://runs/{run}/steps/{+path}", title="A step", mime_type=_JSON)
    async def step(context: Context[Any, Any], run: str, path: str) -> str:
        """A step: what it was given and returned, its attempts, log and error."""
        return await _json(do(context, step_view.show_step, f"{run}/{path}"))

    @server.resource("afl://workflows/{name}", title="A workflow", mime_type=_JSON)
    async def workflow(context: Context[Any, Any], name: str) -> str:
        """What a workflow takes and gives, and its source if it was published."""
        return await _json(do(context, library.show_workflow, name))

    @server.resource("afl://workflows{?text}", title="Workflows", mime_type=_JSON)
    async def workflows(context: Context[Any, Any], text: str = "") -> str:
        """The workflows that can be started by name."""
        found = await _caught(do(context, library.list_workflows))
        return _text([each for each in found if text in each.name])

    @server.resource("afl://flows{?before}", title="Flows", mime_type=_JSON)
    async def stored(context: Context[Any, Any], before: str = "") -> str:
        """The sources that the store keeps, newest first, a page at a time."""
        return await _json(do(context, flows.list_flows, before=before))

    @server.resource("afl://flows/{+flow}", title="A flow", mime_type=_JSON)
    async def flow(context: Context[Any, Any], flow: str) -> str:
        """A flow: its workflows, its source, its compiled JSON."""
        return await _json(do(context, flows.show_flow, flow))

    @server.resource("afl://approvals{?group}", title="Approvals", mime_type=_JSON)
    async def waiting(context: Context[Any, Any], group: str = "") -> str:
        """What waits for a person."""
        return await _json(do(context, approvals.list_approvals, group=group))


async def _json(asked: Awaitable[Any]) -> str:
    return _text(await _caught(asked))


async def _caught(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except NotFoundError as error:
        raise ResourceNotFoundError(said(error)) from error
    except AgentFlowError as error:
        raise ResourceError(said(error)) from error


def _text(found: Any) -> str:
    return serialization.encode(found).decode()
