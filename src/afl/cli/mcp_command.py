"""`afl mcp`."""

from __future__ import annotations

from typing import Annotated

import typer

from afl.cli import options
from afl.cli.clients import chosen
from afl.cli.console import say
from afl.kernel.errors import MissingExtraError, pip_install
from afl.kernel.observing import observe

try:
    from afl.mcp.server import serve_http, serve_stdio
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in (
        "mcp",
        "mcp_types",
        "starlette",
        "uvicorn",
        "anyio",
        "pydantic",
    ):
        raise
    raise MissingExtraError(f"the MCP server needs `{pip_install('mcp')}`") from missing


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where HTTP listens.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port of HTTP; 0 takes a free one.")
    ] = 8766,
    store: options.Store = None,
    server: options.Server = None,
) -> None:
    """Serve models: start, inspect and steer runs by the Model Context Protocol.

    A client starts it by itself: [bold]claude mcp add agentflow -- afl mcp[/bold]. Over HTTP any address but the
    loopback requires a token (AFL_TOKEN) or users (afl dashboard user add).

    [bold]Examples[/bold]

      afl mcp
      afl mcp --store postgresql://db/afl
      afl mcp --http --port 8766
      afl mcp --server https://afl.example.org
    """
    settings = chosen(store, server)
    observe(settings, "afl-mcp", level="WARNING")
    if http:
        serve_http(settings, host, port, lambda url: say(f"MCP at {url}; Ctrl+C ends it."))
    else:
        serve_stdio(settings)
