"""An MCP server of its own process, made with the classes of the MCP library alone: `mcp_notes.py FILE [PORT [2025]]`.

Each call is a line in FILE: the tool, the process and the idempotency key. With 2025 it speaks the protocol of that
year, whose clients have sessions.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
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


@server.tool(annotations=READS)
def picture(size: int) -> Image:
    """A picture of so many bytes."""
    return Image(data=bytes(size), format="png")


async def as_in_2025(scope: Any, receive: Any, send: Any) -> None:
    """The server, which does not know the method that later clients begin with."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return await app(scope, receive, send)
    received = [await receive()]
    while received[-1].get("more_body"):
        received.append(await receive())
    asked = json.loads(b"".join(each["body"] for each in received))
    if asked["method"] != "server/discover":
        return await app(scope, lambda: read(received, receive), send)
    error = {"code": -32601, "message": "Method not found"}
    body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read(received: list[Any], receive: Any) -> Any:
    return received.pop(0) if received else await receive()


if len(sys.argv) > 3:
    app = server.streamable_http_app()
    uvicorn.run(as_in_2025, port=int(sys.argv[2]), log_level="error")
elif len(sys.argv) > 2:
    server.run("streamable-http", port=int(sys.argv[2]))
else:
    server.run("stdio")
