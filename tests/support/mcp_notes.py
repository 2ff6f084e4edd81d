"""An MCP server of its own process, made with the classes of the MCP library alone: `mcp_notes.py FILE [PORT]`.

Each call is a line in FILE: the tool, the process and the idempotency key.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("notes", log_level="ERROR")
journal = Path(sys.argv[1])


def note(tool: str, context: Context[Any] | None = None) -> int:
    """Write a line; how many there are of the tool."""
    meta: Any = None if context is None else context.request_context.meta
    key = "" if meta is None else dict(meta).get("agentflow/idempotency-key", "")
    with journal.open("a") as file:
        file.write(f"{tool} {os.getpid()} {key}\n")
    return sum(line.startswith(f"{tool} ") for line in journal.read_text().splitlines())


@server.tool(annotations=READS)
def find(words: str, ctx: Context[Any]) -> str:
    """Notes with these words."""
    note("find", ctx)
    return f"a note about {words}"


@server.tool(annotations=READS)
def dies_once() -> str:
    """Kills the server when it is called first."""
    if note("dies_once") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive again"


@server.tool(annotations=ToolAnnotations(read_only_hint=False))
def write(text: str) -> str:
    """Write a note."""
    if text == "die":
        note("write")
        os.kill(os.getpid(), signal.SIGKILL)
    return f"note {note('write')}"


if len(sys.argv) > 2:
    server.run("streamable-http", port=int(sys.argv[2]))
else:
    server.run("stdio")
