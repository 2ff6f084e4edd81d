"""The list of resources: where a client begins that shows them to a person, or looks around itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, Annotations, Resource

from afl.kernel.errors import AgentFlowError
from afl.mcp.clients import RequestClient
from afl.mcp.toolbox import said
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
    return [*lists, *(_run(line) for line in page.runs)]


def _run(line: RunLine) -> Resource:
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
