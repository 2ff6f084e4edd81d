"""MCP servers over HTTP whose sessions end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from support.processes import python
from support.turns_office import run

from afl.turns import McpServer
from afl.turns.mcp.connection import McpConnection
from afl.turns.mcp.transport import opened

NOTES = str(Path(__file__).parents[2] / "support" / "mcp_notes.py")


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[McpConnection]:
    server = McpServer(url=f"http://127.0.0.1:{port}/mcp", name="web")
    connection = McpConnection(server, partial(opened, server, allow_private=True))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def notes(journal: Path, port: int) -> AsyncIterator[None]:
    """The server of notes, with the sessions that most servers have."""
    with python(NOTES, str(journal), str(port), "2025"):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                break
        yield


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_session_that_the_server_has_ended_is_opened_again(
    tmp_path: Path, port: int, repeatable: bool
) -> None:
    """A server that was restarted, or where nobody called for long, answers 404 to the session. Nothing was done."""

    async def work() -> None:
        async with connected(port) as connection:
            async with notes(tmp_path / "calls", port):
                await connection.tools()
            async with notes(tmp_path / "calls", port):
                result = await connection.call("write", {"text": "a"}, meta={}, repeatable=repeatable)
            assert result.structured_content == {"result": "note 1"}

    run(work)


def test_a_session_that_ended_costs_no_turn_its_tools(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.turns.mcp.connection.TOOLS_SECONDS", 0.0)

    async def work() -> None:
        async with connected(port) as connection:
            async with notes(tmp_path / "calls", port):
                before = await connection.tools()
            async with notes(tmp_path / "calls", port):
                assert await connection.tools() == before

    run(work)
