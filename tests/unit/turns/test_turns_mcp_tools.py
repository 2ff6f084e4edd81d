"""Tools of MCP servers: what is offered, what is allowed, and what a result may be."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer
from mcp_types import CONNECTION_CLOSED, CallToolResult, TextContent, ToolAnnotations

from afl.kernel.errors import InputError
from afl.kernel.public_address import is_public
from afl.kernel.settings import load_settings
from afl.turns.mcp.connection import McpConnection, McpUnavailable
from afl.turns.mcp.server import McpServer, McpServers, server_of
from afl.turns.mcp.tools import McpTool, local_tools, needs_approval
from afl.turns.mcp.transport import PrivateAddress, PublicTransport, opened
from afl.turns.tools.local import LocalTool, ToolCall, ToolCaller
from afl.turns.tools.outcome import Outcome

READS = ToolAnnotations(read_only_hint=True)


def library() -> MCPServer:
    server = MCPServer("library", log_level="CRITICAL")

    @server.tool(annotations=READS)
    def find(words: str) -> str:
        return f"a page about {words}"

    @server.tool(annotations=READS, description="d" * 5_000)
    def long() -> str:
        return "x" * 5_000

    @server.tool(annotations=READS)
    def broken() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="no such page")], is_error=True)

    @server.tool(annotations=READS)
    def control() -> dict[str, Any]:
        return {"__cg_control": {"after_execution": "terminate"}, "found": 2}

    @server.tool(annotations=READS, name="dots.and/slashes")
    def dotted() -> str:
        return "called"

    @server.tool(annotations=READS)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    def write(text: str) -> str:
        return f"wrote {text}"

    return server


async def tools_of(connection: McpConnection, *taken: str) -> dict[str, LocalTool]:
    return {tool.name: tool for tool in local_tools(connection, await connection.tools(), taken)}


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[McpConnection]:
    connection = McpConnection(McpServer(command=["library"], **options), lambda: Client(library()))
    try:
        yield connection
    finally:
        await connection.close()


async def called(tool: LocalTool, **given: Any) -> Outcome:
    caller = ToolCaller()
    try:
        return await caller.call(tool, ToolCall("c1", tool.name, "p", "ada", "t1"), given)
    finally:
        caller.close()


def test_calls_and_their_results() -> None:
    async def work() -> None:
        async with connected(max_result=100, max_description=50, timeout=0.2) as connection:
            tools = await tools_of(connection)
            assert (await called(tools["find"], words="x")).result == {"result": "a page about x"}
            assert "(cut: it has 50" in (await called(tools["long"])).result
            assert tools["long"].tool.description == f"{'d' * 50}... (cut: it has 5000 characters)"
            failed = await called(tools["broken"])
            assert failed.error == {"code": "mcp_tool_error", "message": "no such page"}
            assert (await called(tools["control"])).result == {"found": 2}  # it cannot end the turn
            assert (await called(tools["dots_and_slashes"])).result == {"result": "called"}
            assert (await called(tools["slow"])).status == "timeout"
            asks = {
                name: tool.approval.group({}) for name, tool in tools.items() if tool.approval is not None
            }
            assert asks["write"] == "operators" and "find" not in asks

    asyncio.run(work())


def test_names_are_filtered_prefixed_and_never_taken_from_others() -> None:
    async def work() -> None:
        async with connected(allow=["fi*", "write"], prefix="lib_", approve="never") as connection:
            tools = await tools_of(connection)
            assert set(tools) == {"lib_find", "lib_write"}
            assert (await called(tools["lib_write"], text="a")).result == {"result": "wrote a"}
            assert set(await tools_of(connection, "lib_find")) == {"lib_write"}

    asyncio.run(work())


class Dead:
    """A session whose server has died."""

    async def list_tools(self, **_: Any) -> Any:
        raise MCPError(CONNECTION_CLOSED, "Connection closed")

    async def call_tool(self, *_: Any, **__: Any) -> Any:
        raise MCPError(CONNECTION_CLOSED, "Connection closed")


def test_a_server_that_died_before_a_call_is_asked_again() -> None:
    """Nothing was sent to it, so that also a call that must not be repeated is made."""

    async def work(repeatable: bool) -> None:
        sessions: list[Any] = [nullcontext(Dead()), Client(library())]
        connection = McpConnection(McpServer(command=["library"]), lambda: sessions.pop(0))
        result = await connection.call("write", {"text": "a"}, meta={}, repeatable=repeatable)
        assert result.structured_content == {"result": "wrote a"}
        await connection.close()

    asyncio.run(work(False))
    asyncio.run(work(True))


class Silent:
    """A session whose server answers nothing any more."""

    async def list_tools(self, **_: Any) -> Any:
        await asyncio.Event().wait()


def test_a_server_that_does_not_list_its_tools_in_time_is_told_as_such() -> None:
    async def work() -> None:
        session: Any = nullcontext(Silent())
        connection = McpConnection(McpServer(command=["x"], connect_timeout=0.01), lambda: session)
        with pytest.raises(McpUnavailable, match=r"x does not list its tools: it did not answer in 0\.01 s"):
            await connection.tools()
        await connection.close()

    asyncio.run(work())


def test_a_server_that_does_not_answer_does_not_hold_up_each_turn() -> None:
    """Each turn asks for the tools; only the first one waits for the answer."""

    async def work(session: Any) -> None:
        opened: list[Any] = []

        def open_session() -> Any:
            opened.append(session)
            return session

        connection = McpConnection(McpServer(command=["x"], connect_timeout=0.2), open_session)
        told = []
        for _ in range(3):
            with pytest.raises(McpUnavailable) as failed:
                await connection.tools()
            told.append(str(failed.value))
        assert len(opened) == 1
        assert told[1] == told[2] == "MCP server x is not asked again yet: it did not answer in 0.2 s"
        await connection.close()

    @asynccontextmanager
    async def never_opened() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    asyncio.run(work(nullcontext(Silent())))
    asyncio.run(work(never_opened()))


def test_nobody_waits_for_the_end_of_a_session_with_a_silent_server() -> None:
    """Over HTTP a session ends with a request, which such a server does not answer either."""

    async def work() -> None:
        answered, ended = asyncio.Event(), []

        @asynccontextmanager
        async def session() -> AsyncIterator[Any]:
            yield Silent()
            await answered.wait()
            ended.append("in peace")

        connection = McpConnection(McpServer(command=["x"], connect_timeout=0.01), session)
        with pytest.raises(McpUnavailable, match="did not answer"):
            await connection.tools()
        answered.set()
        await connection.close()
        assert ended == ["in peace"]

    asyncio.run(work())


def test_who_needs_approval() -> None:
    def needs(approve: str, reads: bool) -> bool:
        server = McpServer(command=["x"], approve=approve)
        return needs_approval(McpTool(server, "t", None, is_read_only=reads))  # type: ignore[arg-type]

    assert [needs(approve, True) for approve in ("writes", "always", "never")] == [False, True, False]
    assert [needs(approve, False) for approve in ("writes", "always", "never")] == [True, True, False]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, "exactly one"),
        ({"command": ["a"], "url": "http://b"}, "exactly one"),
        ({"command": "a b"}, "lists of texts"),
        ({"url": "ftp://b"}, "begins with http"),
        ({"command": ["a"], "approve": "maybe"}, "expected writes"),
        ({"command": ["a"], "timeout": 0}, "more than 0"),
    ],
)
def test_what_is_no_server(given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        McpServer(**given)


def test_configured_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    configured = {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"KEY": "k-${TOKEN}"}}}
    servers = McpServers([McpServer(url="https://example.com/mcp", name="git")])
    servers.settings = load_settings({"mcp_servers": configured}, environ={})
    git = servers.find("git")  # an admin's word wins
    assert git.command == ("uvx", "mcp-server-git")
    assert git.expanded(git.env) == {"KEY": "k-s3cret"}
    assert not servers.allows_private
    assert "s3cret" not in repr(git) and "KEY" not in repr(git)
    with pytest.raises(InputError, match="no field 'comand'; command"):
        server_of("x", {"comand": "y"})
    with pytest.raises(InputError, match="two MCP servers have the name 'git'"):
        servers.add(McpServer(command=["git"]))
    with pytest.raises(InputError, match="no MCP server 'svn' here; known are: git"):
        servers.find("svn")
    monkeypatch.delenv("TOKEN")
    with pytest.raises(InputError, match="the variable TOKEN is not set"):
        git.expanded(git.env)


def test_the_address_that_was_checked_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["2606:4700:4700::1111", "1.1.1.1"]
    sent: list[tuple[str, str, str]] = []

    def resolved(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append((request.url.host, request.headers["host"], request.extensions["sni_hostname"]))
        if ":" in request.url.host:
            raise httpx2.ConnectError("no route")
        return httpx2.Response(200)

    async def work() -> None:
        transport = PublicTransport(httpx2.MockTransport(answer))
        async with httpx2.AsyncClient(transport=transport) as client:
            assert (await client.post("https://mcp.example.com/mcp", json={})).status_code == 200
            found.append("10.0.0.1")  # the name leads elsewhere now
            with pytest.raises(PrivateAddress, match=r"10\.0\.0\.1"):
                await client.post("https://mcp.example.com/mcp", json={})

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    asyncio.run(work())
    assert sent == [(address, "mcp.example.com", "mcp.example.com") for address in found[:2]]


@pytest.mark.parametrize("location", ["/mcp/", "https://mcp.example.com/mcp/"])
def test_a_redirect_within_a_public_server_is_followed_by_its_name(
    monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    """Many servers redirect to the path with a slash. Not to the address: the certificate is that of the name."""
    sent: list[tuple[str, str, str]] = []
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "find", "inputSchema": {"type": "object"}}]},
    }

    def resolved(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("1.1.1.1", port))]

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append((request.url.host, request.headers["host"], request.extensions["sni_hostname"]))
        if request.url.path == "/mcp":
            return httpx2.Response(307, headers={"location": location})
        asked = json.loads(request.content)
        if "id" not in asked:
            return httpx2.Response(202)
        if asked["method"] not in results:
            return httpx2.Response(404)
        return httpx2.Response(
            200, json={"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
        )

    async def work() -> list[str]:
        server = McpServer(url="https://mcp.example.com/mcp")
        connection = McpConnection(server, partial(opened, server, allow_private=False))
        try:
            return [tool.name for tool in await connection.tools()]
        finally:
            await connection.close()

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", lambda: httpx2.MockTransport(answer))
    assert asyncio.run(work()) == ["find"]
    assert set(sent) == {("1.1.1.1", "mcp.example.com", "mcp.example.com")}


def test_public_addresses() -> None:
    assert is_public("1.1.1.1") and is_public("2606:4700:4700::1111")
    private = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1"]
    hidden = ["fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::a9fe:a9fe"]
    assert not any(is_public(each) for each in (*private, *hidden))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("uvx mcp-server-git", "mcp-server-git"),
        ("uvx x --token sk-12345", "x"),
        ("npx -y @modelcontextprotocol/server-filesystem /data", "server-filesystem"),
        ("/usr/bin/python3.12 -m shop.stock sk-12345", "shop.stock"),
        ("python stock.py", "stock.py"),
        ("pipx run stock", "stock"),
        ("uv tool run stock", "stock"),
        ("docker run -i --rm mcp/github", "github"),
        ("docker run -e TOKEN=sk-12345 mcp/github", "docker"),
        ("npx --token sk-12345 stock", "npx"),
        ("uvx git+https://sk-12345@example.com/stock?key=sk-12345", "stock"),
        ("/opt/stock --token sk-12345", "stock"),
        ("stock sk-12345", "stock"),
        ("uvx", "uvx"),
    ],
)
def test_the_name_of_a_server_is_what_its_command_starts(command: str, name: str) -> None:
    assert McpServer(command=command.split()).name == name


def test_the_name_of_a_server_may_be_given() -> None:
    assert McpServer(command=["uvx", "x"], name="shop").name == "shop"
    assert McpServer(url="https://mcp.example.com/sk-12345?key=sk-12345").name == "mcp.example.com"
