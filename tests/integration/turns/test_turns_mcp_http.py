"""MCP servers over HTTP: sessions that end, large results, and refusals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.processes import python
from support.turns_office import run

from afl.turns import McpServer
from afl.turns.mcp.connection import McpConnection, McpUnavailable
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


def test_a_result_may_be_as_large_over_http_as_from_a_process(tmp_path: Path, port: int) -> None:
    async def work() -> None:
        async with connected(port) as connection, notes(tmp_path / "calls", port):
            result = await connection.call("picture", {"size": 3_000_000}, meta={}, repeatable=True)
            assert len(result.content[0].data) == 4_000_000

    run(work)


@contextmanager
def refusing(status: int, kind: str, body: bytes) -> Iterator[int]:
    """A server that answers each request so; its port."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("status", "kind", "body", "told"),
    [
        (401, "application/json", b'{"error": "invalid_token"}', "HTTP 401 Unauthorized"),
        (403, "text/html", b"<html>", "HTTP 403 Forbidden"),
        (404, "text/plain", b"", "HTTP 404 Not Found"),
        (503, "text/plain", b"", "HTTP 503 Service Unavailable"),
        (599, "text/plain", b"", "HTTP 599"),
        (400, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no!"}}', "no!"),
    ],
)  # fmt: skip
def test_the_status_of_a_refusal_is_told(status: int, kind: str, body: bytes, told: str) -> None:
    async def work(port: int) -> None:
        async with connected(port) as connection:
            with pytest.raises(McpUnavailable, match=f"MCP server web cannot be reached: {told}$"):
                await connection.tools()

    with refusing(status, kind, body) as port:
        run(partial(work, port))
