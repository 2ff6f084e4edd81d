"""Resources: runs, steps, logs, workflows, flows and approvals, as JSON that a client can attach to a conversation."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, Annotations, Resource

from afl.kernel.errors import AgentFlowError, NotFoundError
from afl.mcp.clients import RequestClient
from afl.mcp.tools import json_text, said
from afl.operations.people import approvals
from afl.operations.program import flows, library
from afl.operations.run import run_list, run_log, run_view, step_view
from afl.operations.run.run_list import RunLine, list_runs

_JSON = "application/json"
_MOST_RUNS = 50
_LONGEST = 200
_LISTS = (
    ("afl://runs", "runs", "Runs", "The newest runs, a page at a time."),
    ("afl://workflows", "workflows", "Workflows", "The workflows that can be started by name."),
    ("afl://flows", "flows", "Flows", "The sources that the store keeps, newest first, a page at a time."),
    ("afl://approvals", "approvals", "Approvals", "What waits for a person."),
)


def add_resources(server: MCPServer[Any], client: RequestClient) -> None:
    """Offer all of them."""
    call = client.call

    @server.resource("afl://runs{?state,before}", title="Runs", mime_type=_JSON)
    async def runs(context: Context[Any, Any], state: str = "", before: str = "") -> str:
        """The newest runs, a page at a time."""
        return await _json(call(context, run_list.list_runs, state=state, before=before))

    @server.resource("afl://runs/{run}", title="A run", mime_type=_JSON)
    async def run(context: Context[Any, Any], run: str) -> str:
        """A run with its inputs, outputs, error and steps as a tree."""
        return await _json(call(context, run_view.show_run, run))

    @server.resource("afl://runs/{run}/log", title="The log of a run", mime_type=_JSON)
    async def log(context: Context[Any, Any], run: str) -> str:
        """What a run's agents and its workflow logged."""
        return await _json(call(context, run_log.read_page, run))

    @server.resource("afl://runs/{run}/steps/{+path}", title="A step", mime_type=_JSON)
    async def step(context: Context[Any, Any], run: str, path: str) -> str:
        """A step: what it was given and returned, its attempts, log and error."""
        return await _json(call(context, step_view.show_step, f"{run}/{path}"))

    @server.resource("afl://workflows/{name}", title="A workflow", mime_type=_JSON)
    async def workflow(context: Context[Any, Any], name: str) -> str:
        """What a workflow takes and gives, and its source if it was published."""
        return await _json(call(context, library.show_workflow, name))

    @server.resource("afl://workflows{?text}", title="Workflows", mime_type=_JSON)
    async def workflows(context: Context[Any, Any], text: str = "") -> str:
        """The workflows that can be started by name."""
        found = await _caught(call(context, library.list_workflows))
        return json_text([each for each in found if text in each.name])

    @server.resource("afl://flows{?before}", title="Flows", mime_type=_JSON)
    async def stored(context: Context[Any, Any], before: str = "") -> str:
        """The sources that the store keeps, newest first, a page at a time."""
        return await _json(call(context, flows.list_flows, before=before))

    @server.resource("afl://flows/{+flow}", title="A flow", mime_type=_JSON)
    async def flow(context: Context[Any, Any], flow: str) -> str:
        """A flow: its workflows, its source, its compiled JSON."""
        return await _json(call(context, flows.show_flow, flow))

    @server.resource("afl://approvals{?group}", title="Approvals", mime_type=_JSON)
    async def waiting(context: Context[Any, Any], group: str = "") -> str:
        """What waits for a person."""
        return await _json(call(context, approvals.list_approvals, group=group))


async def _json(asked: Awaitable[Any]) -> str:
    return json_text(await _caught(asked))


async def _caught(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except NotFoundError as error:
        raise ResourceNotFoundError(said(error)) from error
    except AgentFlowError as error:
        raise ResourceError(said(error)) from error


async def listed(context: Context[Any, Any], client: RequestClient) -> list[Resource]:
    """The lists, and the newest runs: one question to the store. The templates lead to everything else."""
    try:
        page = await client.call(context, list_runs, limit=_MOST_RUNS)
    except AgentFlowError as error:
        raise MCPError(code=INTERNAL_ERROR, message=said(error)) from error
    lists = [
        Resource(uri=uri, name=name, title=title, description=about, mime_type=_JSON)
        for uri, name, title, about in _LISTS
    ]
    return [*lists, *(_run_resource(line) for line in page.runs)]


def _run_resource(line: RunLine) -> Resource:
    why = line.error or line.reason
    told = f"Run {line.run} is {line.state}" + (f": {why}" if why else ".")
    changed = datetime.fromtimestamp((line.ended or line.created) / 1000, UTC)
    return Resource(
        uri=f"afl://runs/{quote(line.run, safe='')}",
        name=line.run,
        title=f"{line.workflow}, {line.state}",
        description=told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…",
        mime_type=_JSON,
        annotations=Annotations(last_modified=changed.isoformat(timespec="milliseconds")),
    )
